"""How authors' functions end, and who can cancel what (CASES C37, C63, C100)."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from saga_mcp.tools.running import Raised, Returned, ToolThreads, describe, run

RUDE = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError("deep"), asyncio.CancelledError()]
GROUP = ExceptionGroup("several", [ValueError("one"), ExceptionGroup("inner", [KeyError("two")])])


def raise_(error: BaseException) -> None:
    raise error


async def raise_async(error: BaseException) -> None:
    await anyio.lowlevel.checkpoint()
    raise error


@pytest.mark.parametrize("error", [*RUDE, GROUP], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("function", [raise_, raise_async], ids=["plain", "async"])
async def test_whatever_a_function_raises_is_a_value(
    function: Callable[[BaseException], object], error: BaseException
) -> None:
    ended = await run(partial(function, error), is_async=function is raise_async, threads=ToolThreads("test"))
    assert isinstance(ended, Raised)
    assert ended.error is error
    await anyio.lowlevel.checkpoint()  # no cancellation was left behind


async def test_a_function_that_cancels_its_own_task_cancels_nobody_else() -> None:
    async def cancels_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    ended = await run(cancels_itself, is_async=True, threads=ToolThreads("test"))
    await anyio.lowlevel.checkpoint()
    assert ended == Returned("done")


async def test_a_cancelled_coroutine_stops_and_the_cancellation_goes_on() -> None:
    stopped = anyio.Event()

    async def waits() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    ended: list[object] = []
    with anyio.fail_after(5), anyio.move_on_after(0.01) as scope:
        ended.append(await run(waits, is_async=True, threads=ToolThreads("test")))
    assert scope.cancelled_caught
    assert stopped.is_set()
    assert ended == []


async def test_what_a_cancelled_coroutine_shields_is_carried_out() -> None:
    """A pool that puts a connection back, or closes it, does so under a shield."""
    scope, begun, cleaned_up = anyio.CancelScope(), anyio.Event(), anyio.Event()

    async def tool() -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                cleaned_up.set()

    async def engine() -> None:
        with scope:
            await run(tool, is_async=True, threads=ToolThreads("test"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine)
            await begun.wait()
            scope.cancel()
    assert scope.cancelled_caught
    assert cleaned_up.is_set()


async def test_a_natively_cancelled_task_passes_the_cancellation_to_the_coroutine() -> None:
    started = anyio.Event()

    async def waits() -> None:
        started.set()
        await anyio.sleep_forever()

    task = asyncio.create_task(run(waits, is_async=True, threads=ToolThreads("test")))
    with anyio.fail_after(5):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.case(37)
async def test_the_wait_for_a_thread_lasts_until_it_ends_although_cancelled() -> None:
    """A thread cannot be stopped, so its effect still comes, and the wait must see it."""
    may_end, ended = threading.Event(), list[object]()

    def tool() -> str:
        may_end.wait(5)
        return "effect"

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                ended.append(await run(tool, is_async=False, threads=ToolThreads("test")))

            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                assert ended == []
                may_end.set()
    assert ended == [Returned("effect")]


async def test_a_process_that_ends_lets_go_of_its_threads() -> None:
    threads, may_end, ended = ToolThreads("test"), threading.Event(), list[object]()

    async def call() -> None:
        ended.append(await run(partial(may_end.wait, 5), is_async=False, threads=threads))

    with anyio.fail_after(2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            threads.let_go()
    assert ended == []
    may_end.set()


async def test_hung_threads_of_one_sort_leave_room_for_the_other() -> None:
    forward, undo, may_end = ToolThreads("forward", at_most=1), ToolThreads("undo", at_most=1), threading.Event()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(run, partial(may_end.wait, 5), is_async=False, threads=forward))
            await anyio.wait_all_tasks_blocked()
            assert await run(lambda: "undone", is_async=False, threads=undo) == Returned("undone")
            may_end.set()


async def test_a_thread_is_used_again_and_ends_with_the_process() -> None:
    threads, idents = ToolThreads("test"), list[int]()
    with anyio.fail_after(5):
        for _ in range(3):
            await run(lambda: idents.append(threading.get_ident()), is_async=False, threads=threads)
        (thread,) = [each for each in threading.enumerate() if each.ident in idents]
        threads.let_go()
        await anyio.to_thread.run_sync(thread.join)
    assert len(set(idents)) == 1


async def test_a_function_that_finds_no_thread_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    ended = await run(lambda: "effect", is_async=False, threads=ToolThreads("test"))
    assert isinstance(ended, Raised)
    assert not ended.started


async def test_a_plain_function_that_returns_a_coroutine_is_awaited() -> None:
    effects: list[str] = []

    async def tool() -> str:
        effects.append("done")
        return "result"

    def wrapped() -> Awaitable[str]:
        return tool()

    assert await run(wrapped, is_async=False, threads=ToolThreads("test")) == Returned("result")
    assert effects == ["done"]


@pytest.mark.case(100)
def test_a_hung_thread_does_not_keep_the_interpreter_alive() -> None:
    """Hosts wait, then kill."""
    program = """
import anyio, threading
from saga_mcp.tools.running import ToolThreads, run

async def main():
    threads = ToolThreads("test")
    async with anyio.create_task_group() as tasks:
        async def call():
            await run(threading.Event().wait, is_async=False, threads=threads)
        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        threads.let_go()
        tasks.cancel_scope.cancel()
    print("ended")

anyio.run(main)
"""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "ended\n"
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(ValueError("too much"), "ValueError: too much", id="message"),
        pytest.param(SystemExit(), "SystemExit", id="no-message"),
        pytest.param(
            GROUP, "ExceptionGroup: several (ValueError: one; ExceptionGroup: inner (KeyError: 'two'))", id="group"
        ),
        pytest.param(OSError("\udcff"), "OSError: \ufffd", id="lone-surrogate"),
    ],
)
def test_an_error_reads_as_its_type_and_message(error: BaseException, text: str) -> None:
    assert describe(error) == text


def test_an_error_that_cannot_be_shown_still_has_its_type() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert describe(Broken()) == "Broken"
