"""Waiting for a call that may outlive the wait (SEMANTICS.md S3.3).

A time limit ends the wait, not the call: the call stays open until it answers or its hard deadline has passed. A call
that can be stopped is stopped then; a thread cannot be, and is waited for until it returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup

from saga_mcp.engine.clock import Clock
from saga_mcp.tools.port import Arguments, CallContext, Lost, Outcome, Tool

T = TypeVar("T")

_log = structlog.get_logger(__name__)

_STOP_GRACE_S = 5.0
"""How long a cancelled call may take to end before it counts as one that cannot be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits of one call, in seconds from its start."""

    timeout_s: float
    hard_deadline_s: float
    stoppable: bool


async def wait_for(event: anyio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for `event` at most that long; whether it is set."""
    if event.is_set():
        return True
    with anyio.CancelScope() as waiting:
        alarm = clock.after(seconds, waiting.cancel)
        try:
            await event.wait()
        finally:
            alarm.cancel()
    return event.is_set()


async def within(seconds: float, call: Callable[[], Awaitable[T]], tasks: TaskGroup, clock: Clock) -> T | None:
    """The answer of a read, or None where it does not come in time.

    The read is a task of its own: one in a thread cannot be stopped, and must hold up nobody.
    """
    answers: list[T] = []
    errors: list[Exception] = []
    scope = anyio.CancelScope()
    ended = anyio.Event()

    async def run() -> None:
        try:
            with scope:
                answers.append(await call())
        except Exception as error:  # noqa: BLE001 - raised to whoever waits
            errors.append(error)
        finally:
            ended.set()

    tasks.start_soon(run)
    try:
        await wait_for(ended, seconds, clock)
    finally:
        scope.cancel()
    if errors:
        raise errors[0]
    return answers[0] if answers else None


class Supervised(Generic[T]):
    """One call under supervision, in the task that asks for it; only one that takes too long costs a second task."""

    def __init__(self, call: Callable[[], Awaitable[T]], limits: Limits, clock: Clock, tasks: TaskGroup) -> None:
        self._call = call
        self._limits = limits
        self._clock = clock
        self._tasks = tasks
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._watched: anyio.Event | None = None
        """Set when what there was to tell about a late call is told; None while there is nothing."""

    async def run(
        self, *, on_timeout: Callable[[], Awaitable[None]], on_overdue: Callable[[], Awaitable[None]]
    ) -> T | None:
        """The answer, in time or late; None: the call was stopped at its hard deadline.

        Args:
            on_timeout: called when the wait ends and the call does not. What goes wrong there does not touch the call.
            on_overdue: likewise, when the hard deadline passes and the call cannot be stopped.
        """

        def late() -> None:
            self._watched = anyio.Event()
            self._tasks.start_soon(self._watch, on_timeout, on_overdue)

        answer: T | None = None
        alarm = self._clock.after(self._limits.timeout_s, late)
        try:
            with self._scope:
                answer = await self._call()
        finally:
            alarm.cancel()
            self._ended.set()
        if self._watched is not None:
            await self._watched.wait()
        return answer

    async def _watch(
        self, on_timeout: Callable[[], Awaitable[None]], on_overdue: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await self._tell(on_timeout)
            if await wait_for(self._ended, self._limits.hard_deadline_s - self._limits.timeout_s, self._clock):
                return
            # A thread does not hear this while it runs; one that still waits for its turn must not get it any more.
            self._scope.cancel()
            if not await self._stops():
                await self._tell(on_overdue)
        finally:
            if self._watched is not None:
                self._watched.set()

    async def _stops(self) -> bool:
        if self._limits.stoppable:
            return await wait_for(self._ended, _STOP_GRACE_S, self._clock)
        for _ in range(3):  # scheduler turns, for a call that has not begun
            await anyio.lowlevel.checkpoint()
        return self._ended.is_set()

    async def _tell(self, callback: Callable[[], Awaitable[None]]) -> None:
        try:
            await callback()
        except Exception:  # noqa: BLE001 - the call goes on, and its outcome will be recorded all the same
            _log.exception("observation_failed")


async def outcome_of(tool: Tool, args: Arguments, context: CallContext) -> Outcome:
    """Return the outcome of a call, also where the adapter itself is at fault: then nothing is known."""
    try:
        return await tool.call(args, context)
    except Exception:  # noqa: BLE001 - see above
        _log.exception("tool_adapter_failed", tool=tool.pair.tool)
        return Lost(reason="internal error", end_known=False)
