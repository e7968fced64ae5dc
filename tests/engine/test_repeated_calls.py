"""Calls that come twice (SEMANTICS.md S8): the outside world is what counts."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.world.reading import World
from tests.world.server import ME, Server, eventually, served

from saga_mcp.domain.errors import KeyReused
from saga_mcp.engine.port import CallReply


async def _keyed(server: Server, saga_id: str, key: str, **arguments: str) -> CallReply:
    with anyio.fail_after(10):
        return await server.engine.call("reserve", arguments, saga_id=saga_id, step_key=key, caller=ME)


async def _cut_off(server: Server, saga_id: str, world: World, mode: str) -> None:
    with anyio.CancelScope() as request:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.call("reserve", saga_id, item="a", mode=mode))
            await eventually(lambda: bool(world.sent("reserve")))
            request.cancel()


@pytest.mark.case(8)
async def test_a_step_key_names_one_step(world: World, database: Path) -> None:
    """S8.2."""
    async with served(database) as one, served(database) as two:
        saga_id = await one.begin()
        first = await _keyed(one, saga_id, "k", item="a")
        again = await _keyed(two, saga_id, "k", item="a")
        assert (first.step, again.step, again.replayed, again.code) == (1, 1, True, "")
        with pytest.raises(KeyReused):
            await _keyed(one, saga_id, "k", item="b")
        assert (await _keyed(one, saga_id, "l", item="a")).step == 2
    assert world.order == ["reserve(a)", "reserve(a)"]


async def test_two_calls_with_one_key_at_the_same_time_are_one_step(world: World, database: Path) -> None:
    async with served(database) as one, served(database) as two:
        saga_id = await one.begin()
        replies: list[CallReply] = []

        async def call(server: Server) -> None:
            replies.append(await _keyed(server, saga_id, "k", item="a", mode="0.05"))

        async with anyio.create_task_group() as calls:
            for server in (one, two, one, two):
                calls.start_soon(call, server)
        assert {(reply.step, reply.code) for reply in replies} == {(1, "")}
    assert world.order == ["reserve(a)"]


async def test_a_call_whose_answer_was_lost_is_answered_when_it_comes_again(world: World, database: Path) -> None:
    """S8.3."""
    async with served(database) as server:
        saga_id = await server.begin()
        await _cut_off(server, saga_id, world, "hang_before")
        async with anyio.create_task_group() as calls:

            async def again() -> None:
                reply = await server.call("reserve", saga_id, item="a", mode="hang_before")
                assert (reply.step, reply.code) == (1, "")

            calls.start_soon(again)
            await server.until(saga_id, lambda saga: saga.step(1).reply_lost or saga.running == 1)
            world.go()
        assert len((await server.engine.saga(saga_id)).steps) == 1
    assert world.order == ["reserve(a)"]


async def test_an_answer_that_died_with_its_process_is_given_by_the_next(world: World, database: Path) -> None:
    """S8.1: on stdio the process that should have replied is dead and nothing came from the caller since."""
    async with served(database) as mortal:
        saga_id = await mortal.begin()
        await _cut_off(mortal, saga_id, world, "0.01")
        await mortal.rest(saga_id)
    async with served(database) as server:
        reply = await server.call("reserve", saga_id, item="a", mode="0.01")
        assert (reply.step, reply.replayed, reply.code) == (1, True, "")
    assert world.order == ["reserve(a)"]


async def test_an_equal_call_after_a_delivered_answer_is_a_new_step(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.engine.savepoint(saga_id, "seen")
        reply = await server.call("reserve", saga_id, item="a")
        assert (reply.step, reply.replayed) == (2, False)
    assert world.order == ["reserve(a)", "reserve(a)"]
