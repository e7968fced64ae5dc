"""Callers that leave at a chosen moment: work that is cancelled at its n-th wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from enum import Enum
from typing import Any, cast

import anyio


class Leaving(Enum):
    """How a caller leaves."""

    FOR_GOOD = "for-good"
    """The scope of its request is cancelled, as the SDK does it: whatever the work waits for from then on is, too."""
    AT_ONCE = "at-once"
    """Its task is cancelled, once."""
    UNTOLD = "untold"
    """The same, at the moment when what it waited for is there: the work never hears of it."""


class _Stepped:
    """Awaits work and counts its waits; the caller leaves at one of them."""

    def __init__(self, work: Coroutine[Any, Any, object], at: int, how: Leaving, request: anyio.CancelScope) -> None:
        self._work = work
        self._at = at
        self._how = how
        self._request = request
        self.left = False

    def __await__(self) -> Generator[Any, Any, object]:
        waits, steps, raised = 0, self._work.__await__(), None
        while True:
            try:
                waits_for = steps.send(None) if raised is None else steps.throw(raised)
            except StopIteration as ended:
                return cast("object", ended.value)
            waits += 1
            if waits == self._at:
                self.left = True
                self._leave(waits_for)
            raised = None
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - handed on to the work
                raised = error

    def _leave(self, waits_for: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._how is Leaving.FOR_GOOD:
            self._request.cancel()
        elif self._how is Leaving.UNTOLD and isinstance(waits_for, asyncio.Future):

            def leave(_: asyncio.Future[object]) -> None:
                task.cancel()

            cast("asyncio.Future[object]", waits_for).add_done_callback(leave)
        else:
            task.cancel()


async def leaves(work: Coroutine[Any, Any, object], at: int, how: Leaving) -> bool:
    """Do `work` for a caller who leaves at the n-th wait; whether it came to that."""

    request = anyio.CancelScope()
    stepped = _Stepped(work, at, how, request)

    async def ask() -> bool:
        with request:
            try:
                await stepped
            except asyncio.CancelledError:
                if how is Leaving.FOR_GOOD or not stepped.left:
                    raise
        return stepped.left

    return await asyncio.create_task(ask())
