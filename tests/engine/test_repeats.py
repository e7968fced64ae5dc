"""Repeats and delivery: a call that is made again is told apart from a second one (SEMANTICS.md S8)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.world.clock import ManualClock
from tests.world.reading import World
from tests.world.server import Server, eventually, served

from saga_mcp.domain.errors import KeyReused, StepUnsettled
from saga_mcp.domain.values import OnError, StepState
from saga_mcp.engine.port import Caller, CallReply


async def _cut_off(server: Server, saga_id: str, world: World) -> None:
    """A call whose request is cancelled after it was sent; its effect lands nevertheless."""
    sent = len(world.sent("reserve"))
    with anyio.CancelScope() as request:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.call("reserve", saga_id, item="a", mode="hang_before"))
            await eventually(lambda: len(world.sent("reserve")) > sent)
            request.cancel()


async def test_a_call_whose_answer_was_lost_gets_the_stored_one(world: World, database: Path) -> None:
    """S8.3: known not to have reached the caller."""
    async with served(database) as server:
        saga_id = await server.begin()
        await _cut_off(server, saga_id, world)
        world.go()
        await server.until(saga_id, lambda saga: saga.step(1).reply_lost and saga.step(1).landed is True)
        again = await server.call("reserve", saga_id, item="a", mode="hang_before")
        assert (again.step, again.replayed, again.code) == (1, True, "")
    assert world.order == ["reserve(a)"]


async def test_an_equal_call_joins_the_one_that_runs(world: World, database: Path) -> None:
    replies: list[CallReply] = []
    async with served(database) as server:
        saga_id = await server.begin()

        async def call() -> None:
            replies.append(await server.call("reserve", saga_id, item="a", mode="hang_before"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await eventually(lambda: bool(world.sent("reserve")))
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            world.go()
    assert [(reply.step, reply.code) for reply in replies] == [(1, ""), (1, "")]
    assert replies[0].answer == replies[1].answer
    assert sorted(reply.replayed for reply in replies) == [False, True]  # whoever meant two is told that there is one
    assert world.order == ["reserve(a)"]


async def test_an_equal_call_after_a_delivered_answer_is_a_second_one(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        first = await server.call("reserve", saga_id, item="a")
        second = await server.call("reserve", saga_id, item="a")
        assert (first.step, second.step, second.replayed) == (1, 2, False)
    assert world.order == ["reserve(a)", "reserve(a)"]


async def test_after_a_replay_the_same_call_is_a_new_one(world: World, database: Path) -> None:
    """S8.3: a replay says how to do it again, and that has to be true, also after a restart."""
    async with served(database) as server:
        saga_id = await server.begin()
        await _cut_off(server, saga_id, world)
        world.go()
        await server.until(saga_id, lambda saga: saga.step(1).reply_lost and saga.step(1).landed is True)
        assert (await server.call("reserve", saga_id, item="a", mode="hang_before")).replayed
        third = await server.call("reserve", saga_id, item="a", mode="hang_before")
        assert (third.step, third.replayed) == (2, False)
    async with served(database) as server:
        assert not (await server.engine.saga(saga_id)).step(1).reply_lost
    assert world.order == ["reserve(a)", "reserve(a)"]


async def test_a_call_that_was_answered_still_running_is_not_sent_twice(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1.0) as server:
        saga_id = await server.begin()
        replies: list[CallReply] = []

        async def call() -> None:
            replies.append(await server.call("reserve", saga_id, item="a", mode="hang_before"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await eventually(lambda: bool(world.sent("reserve")))
            await clock.asleep_for(1.0)
            clock.advance(1.0)
        assert replies[0].code == "still_running"
        world.go()
        await server.until(saga_id, lambda saga: saga.step(1).landed is True)
        again = await server.call("reserve", saga_id, item="a", mode="hang_before")
        assert (again.step, again.replayed) == (1, True)
    assert world.order == ["reserve(a)"]


async def test_an_equal_call_of_a_step_in_doubt_sends_nothing(world: World, database: Path) -> None:
    async with served(database, on_error=OnError.HOLD) as server:
        saga_id = await server.begin()
        first = await server.call("reserve", saga_id, item="a", mode="err_after")
        again = await server.call("reserve", saga_id, item="a", mode="err_after")
        assert (first.code, again.code, again.step) == ("outcome_unknown", "outcome_unknown", 1)
    assert world.order == ["reserve(a)"]


async def test_the_answer_of_a_dead_process_is_repeated_by_the_next(world: World, database: Path) -> None:
    """S8.1: on stdio the process that should have replied is dead, and nothing came from the caller since."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
    async with served(database) as server:
        again = await server.call("reserve", saga_id, item="a")
        assert (again.step, again.replayed) == (1, True)
        assert (await server.call("reserve", saga_id, item="b")).step == 2
    async with served(database) as server:
        assert (await server.call("reserve", saga_id, item="a")).step == 3, "it was acknowledged by what came after"
    assert world.order == ["reserve(a)", "reserve(b)", "reserve(a)"]


async def test_a_step_key_names_one_call(world: World, database: Path) -> None:
    """S8.2."""
    async with served(database, on_error=OnError.HOLD) as server:
        saga_id = await server.begin()

        async def call(**arguments: str) -> CallReply:
            with anyio.fail_after(5):
                return await server.engine.call("reserve", arguments, saga_id=saga_id, step_key="k", caller=Caller())

        first = await call(item="a")
        again = await call(item="a")
        assert (first.step, again.step, again.replayed) == (1, 1, True)
        with pytest.raises(KeyReused):
            await call(item="b")
    assert world.order == ["reserve(a)"]


async def test_a_step_key_of_a_failed_call_may_be_used_again_and_supersedes_it(world: World, database: Path) -> None:
    """S4.4, S8.2."""
    world.plan(reserve=["err_before", "ok"])
    async with served(database, on_error=OnError.HOLD) as server:
        saga_id = await server.begin()
        for expected in ("step_failed", ""):
            with anyio.fail_after(5):
                reply = await server.engine.call(
                    "reserve", {"item": "a"}, saga_id=saga_id, step_key="k", caller=Caller()
                )
            assert reply.code == expected
        assert (await server.commit(saga_id)).phase == "committed"
    assert world.order == ["reserve(a)"]


async def test_a_step_key_of_a_call_in_doubt_sends_nothing(world: World, database: Path) -> None:
    async with served(database, on_error=OnError.HOLD) as server:
        saga_id = await server.begin()
        with anyio.fail_after(5):
            await server.engine.call(
                "reserve", {"item": "a", "mode": "err_after"}, saga_id=saga_id, step_key="k", caller=Caller()
            )
            with pytest.raises(StepUnsettled):
                await server.engine.call(
                    "reserve", {"item": "a", "mode": "err_after"}, saga_id=saga_id, step_key="k", caller=Caller()
                )
    assert world.order == ["reserve(a)"]


async def test_the_parallel_calls_of_a_first_turn_share_a_saga_where_the_client_names_the_conversation(
    world: World, database: Path
) -> None:
    """S1.5."""
    replies: list[CallReply] = []
    async with served(database) as server:

        async def call(item: str, conversation: str) -> None:
            caller = Caller(conversation=conversation)
            with anyio.fail_after(5):
                replies.append(await server.engine.call("reserve", {"item": item}, caller=caller))

        async with anyio.create_task_group() as tasks:
            for item in "abc":
                tasks.start_soon(call, item, "chat-1")
            tasks.start_soon(call, "d", "chat-2")
        ids = {reply.saga_id for reply in replies}
        assert len(ids) == 2
        assert sum(reply.opened for reply in replies) == 2
        await call("e", "chat-1")
        assert replies[-1].saga_id not in ids, "the first reply named the saga: whoever wants it passes its id"
    assert sorted(world.order) == [f"reserve({item})" for item in "abcde"]


async def test_a_first_call_that_is_sent_again_finds_the_saga_it_opened(world: World, database: Path) -> None:
    """S8.3, without `saga_id`."""
    caller = Caller(conversation="chat-1")
    async with served(database) as server:
        with anyio.fail_after(5):
            first = await server.engine.call("reserve", {"item": "a"}, caller=caller)
    async with served(database) as server:
        with anyio.fail_after(5):
            again = await server.engine.call("reserve", {"item": "a"}, caller=caller)
            other = await server.engine.call("reserve", {"item": "a"}, caller=Caller(conversation="chat-2"))
        assert (again.saga_id, again.step, again.replayed) == (first.saga_id, 1, True)
        assert other.saga_id != first.saga_id
        assert (await server.engine.saga(other.saga_id)).step(1).state is StepState.SUCCEEDED
    assert world.order == ["reserve(a)", "reserve(a)"]
