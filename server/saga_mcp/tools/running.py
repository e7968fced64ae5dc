"""Runs what authors wrote: coroutine functions in a task of their own, plain ones in a thread of their own.

Nothing they raise gets past here, `SystemExit` included: how a call ended is a value. It is on this layer because only
the Python adapter needs it; the engine knows outcomes, not exceptions.

A thread cannot be stopped, so the wait for one cannot be cancelled either (S3.3), until `let_go` says that the process
is ending and takes its threads with it. They are daemon threads, because anyio's own keep the interpreter from exiting
while one hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import anyio

from saga_tools.server import repaired

MOST_THREADS = 64
"""Of one sort at a time. Forward actions and undos each have as many: hung forward actions leave room to undo."""


@dataclass(frozen=True, slots=True)
class Returned:
    """It returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised, whatever it was; `started` is False where there was no thread for it."""

    error: BaseException
    started: bool = True


Ended: TypeAlias = Returned | Raised


class ToolThreads:
    """Threads of one sort: forward actions, or undos and probes. One that has ended its work waits for more."""

    def __init__(self, name: str, *, at_most: int = MOST_THREADS) -> None:
        self._name = name
        self._limiter = anyio.CapacityLimiter(at_most)
        self._waits: set[anyio.CancelScope] = set()
        self._free: list[_Thread] = []
        self._let_go = False

    async def run(self, work: Callable[[], object]) -> Ended:
        """Run `work` in a thread and wait for its end, cancelled or not. Waiting for a free thread can be cancelled."""
        async with self._limiter:
            loop = asyncio.get_running_loop()
            finished = anyio.Event()
            ended: list[Ended] = []

            def body() -> None:
                ended.append(_attempt(work))
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(finished.set)

            try:
                thread = self._free.pop() if self._free else _Thread(self._name)
            except RuntimeError as error:  # the machine has none left
                return Raised(error, started=False)
            thread.do(partial(contextvars.copy_context().run, body))
            with anyio.CancelScope(shield=not self._let_go) as wait:
                self._waits.add(wait)
                try:
                    await finished.wait()
                finally:
                    self._waits.discard(wait)
            self._free.append(thread)
            return ended[0]

    def let_go(self) -> None:
        """Let every wait be cancelled from now on: the process is ending."""
        self._let_go = True
        for wait in self._waits:
            wait.shield = False
        while self._free:
            self._free.pop().end()


class _Thread:
    """A daemon thread that does one thing after the other."""

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], None]) -> None:
        """Do `work` next; it must not raise."""
        self._work.put(work)

    def end(self) -> None:
        """End the thread when it has nothing left to do."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


async def run(function: Callable[[], object], *, is_async: bool, threads: ToolThreads) -> Ended:
    """Call `function` to its end.

    Cancelling this cancels a coroutine function, and then raises; it waits for a thread.
    """
    if is_async:
        return await _in_task(cast("Callable[[], Awaitable[object]]", function))
    ended = await threads.run(function)
    if isinstance(ended, Returned) and inspect.isawaitable(ended.value):
        # A coroutine function behind a plain wrapper: so far nothing of it has run.
        value: Awaitable[object] = ended.value
        return await _in_task(lambda: value)
    return ended


async def _in_task(function: Callable[[], Awaitable[object]]) -> Ended:
    """In a task of its own: one that cancels itself, or leaves a cancellation behind, must not hit the engine's."""
    ended: list[Ended] = []
    scope = anyio.CancelScope()

    async def body() -> None:
        try:
            with scope:
                ended.append(Returned(await function()))
        except BaseException as error:  # noqa: BLE001 - authors' code may raise anything; it is handed on as a value
            ended.append(Raised(error))

    task = asyncio.get_running_loop().create_task(body())
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        scope.cancel()  # not the task, whose shields would not hold then
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,))
        if not ended:
            raise
    return ended[0]


def _attempt(work: Callable[[], object]) -> Ended:
    try:
        return Returned(work())
    except BaseException as error:  # noqa: BLE001 - authors' code may raise anything; it is handed on as a value
        return Raised(error)


_OF_TASK_GROUPS = "unhandled errors in a TaskGroup"


def describe(error: BaseException) -> str:
    """Return `ExceptionType: message`, without a traceback, in characters that JSON can carry.

    A group that only says that it is a task group's is no cause: what is in it stands in its place.
    """
    group = _as_group(error)
    if group and group.message == _OF_TASK_GROUPS:
        return "; ".join(describe(each) for each in group.exceptions)
    try:
        message = group.message if group else str(error)
    except BaseException:  # noqa: BLE001 - even `__str__` is authors' code
        message = ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if group:
        text += f" ({'; '.join(describe(each) for each in group.exceptions)})"
    return repaired(text)


def _as_group(error: object) -> BaseExceptionGroup[BaseException] | None:
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error)
    return None
