"""A call is sent again before the log knows that its answer was lost, or even that it was made (S8.1, S8.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from tests.world.failing import HeldLog
from tests.world.reading import World
from tests.world.server import BOUND_S, Server, eventually, served

from saga_mcp.domain.events import ReplyLost, StepSucceeded
from saga_mcp.engine.port import Caller, CallReply
from saga_mcp.log.port import SagaLog

CHAT = Caller(conversation="chat-1")


@asynccontextmanager
async def _held(database: Path) -> AsyncGenerator[tuple[Server, HeldLog]]:
    logs: list[HeldLog] = []

    def wrap(log: SagaLog) -> SagaLog:
        logs.append(HeldLog(log))
        return logs[0]

    async with served(database, wrap=wrap) as server:
        yield server, logs[0]


async def _cancelled(call: Callable[[], Coroutine[object, object, object]], *, when: Callable[[], bool]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await eventually(when)
        tasks.cancel_scope.cancel()


async def _wait(event: anyio.Event) -> None:
    with anyio.fail_after(BOUND_S):
        await event.wait()


async def test_a_call_that_was_cancelled_before_it_was_stored_is_one_step(world: World, database: Path) -> None:
    async with _held(database) as (server, log):
        saga_id = await server.begin()
        log.hold()
        await _cancelled(lambda: server.call("reserve", saga_id, item="a"), when=log.held.is_set)
        log.go()
        log.hold(ReplyLost)
        await _wait(log.held)
        again = await server.call("reserve", saga_id, item="a")
        log.go()
    assert (again.step, again.replayed, again.code) == (1, True, "")
    assert world.order == ["reserve(a)"]


async def _in_chat(server: Server, **arguments: str) -> CallReply:
    with anyio.fail_after(BOUND_S):
        return await server.engine.call("reserve", arguments, caller=CHAT)


async def test_a_first_call_is_found_again_though_the_log_does_not_know_that_its_answer_was_lost(
    world: World, database: Path
) -> None:
    async with _held(database) as (server, log):
        await _cancelled(
            lambda: _in_chat(server, item="a", mode="hang_before"), when=lambda: bool(world.sent("reserve"))
        )
        log.hold(ReplyLost)
        world.go()
        await _wait(log.held)
        again = await _in_chat(server, item="a", mode="hang_before")
        log.go()
    assert (again.step, again.replayed, again.code) == (1, True, "")
    assert world.order == ["reserve(a)"]


async def test_a_first_call_that_was_cancelled_before_it_was_stored_is_found_again(
    world: World, database: Path
) -> None:
    replies: list[CallReply] = []
    async with _held(database) as (server, log):

        async def again() -> None:
            replies.append(await _in_chat(server, item="a"))

        log.hold()
        await _cancelled(again, when=log.held.is_set)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(again)
            await anyio.wait_all_tasks_blocked()
            log.go()
        replies.append(await _in_chat(server, item="b"))
    first, other = replies
    assert (first.step, first.code) == (1, "")
    assert other.saga_id != first.saga_id
    assert world.order == ["reserve(a)", "reserve(b)"]


async def test_an_equal_call_joins_one_that_is_stored_as_done_and_not_answered_yet(
    world: World, database: Path
) -> None:
    """To its caller a call runs until it is answered."""
    replies: list[CallReply] = []
    async with _held(database) as (server, log):
        saga_id = await server.begin()

        async def call() -> None:
            replies.append(await server.call("reserve", saga_id, item="a"))

        log.hold(StepSucceeded, stored=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await _wait(log.held)
            told = log.decisions
            tasks.start_soon(call)
            await eventually(lambda: log.decisions > told)
            log.go()
    assert [(reply.step, reply.code) for reply in replies] == [(1, ""), (1, "")]
    assert world.order == ["reserve(a)"]


async def test_a_newer_reply_does_not_acknowledge_an_outcome_that_nobody_was_told(world: World, database: Path) -> None:
    """S8.1: its process dies before it learns that the outcome is stored."""
    async with _held(database) as (server, log):
        saga_id = await server.begin()
        async with anyio.create_task_group() as tasks:
            log.hold(StepSucceeded, stored=True)
            tasks.start_soon(lambda: server.call("reserve", saga_id, item="a"))
            await _wait(log.held)
            log.hold_no_more()
            await server.call("reserve", saga_id, item="b")
            await server.call("reserve", saga_id, item="c")
            log.hold(ReplyLost)
            tasks.cancel_scope.cancel()
    async with served(database) as server:
        again = await server.call("reserve", saga_id, item="a")
    assert (again.step, again.replayed) == (1, True)
    assert world.order == ["reserve(a)", "reserve(b)", "reserve(c)"]
