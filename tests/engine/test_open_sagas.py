"""Whose sagas an agent sees, and finds again: its own, however many others are open (SEMANTICS.md S1.4, S1.5)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.world.reading import World
from tests.world.server import eventually, served

from saga_mcp.domain.errors import SagaAborted, SagaClosed
from saga_mcp.domain.values import OnError
from saga_mcp.engine.port import Caller

CROWD = 25
"""More open sagas than are looked through."""


async def test_an_agents_open_sagas_are_not_crowded_out_by_those_of_others(world: World, database: Path) -> None:
    async with served(database) as server:
        mine = await server.engine.begin(Caller(id="ada"))
        for _ in range(CROWD):
            await server.engine.begin(Caller(id="bob"))
        assert [row.id for row in await server.engine.open_sagas(Caller(id="ada"), limit=5)] == [mine.id]
    assert world.order == []


async def test_the_sagas_of_this_conversation_are_listed_before_newer_ones(world: World, database: Path) -> None:
    async with served(database) as server:
        ours = await server.engine.begin(Caller(conversation="chat-1"))
        others = [(await server.engine.begin(Caller(conversation="chat-2"))).id for _ in range(CROWD)]
        listed = [row.id for row in await server.engine.open_sagas(Caller(conversation="chat-1"), limit=5)]
        assert listed == [ours.id, *others[:-5:-1]]
    assert world.order == []


async def test_a_first_call_that_is_sent_again_finds_its_saga_behind_many_newer_ones(
    world: World, database: Path
) -> None:
    """S8.3, without `saga_id`."""
    caller = Caller(conversation="chat-1")
    with anyio.fail_after(20):
        async with served(database) as server:
            first = await server.engine.call("reserve", {"item": "a"}, caller=caller)
        async with served(database) as server:
            for _ in range(CROWD):
                await server.engine.begin(Caller(conversation="chat-2"))
            again = await server.engine.call("reserve", {"item": "a"}, caller=caller)
            assert (again.saga_id, again.replayed) == (first.saga_id, True)
    assert world.order == ["reserve(a)"]


async def test_a_call_that_is_sent_a_third_time_finds_what_its_second_sending_began(
    world: World, database: Path
) -> None:
    """The saga holds nothing but its sendings: the first is known to have had no effect, the second is in doubt."""
    caller = Caller(conversation="chat-1")
    world.plan(reserve=["err_before", "hang_after"])
    with anyio.fail_after(20):
        async with served(database, on_error=OnError.HOLD) as server:
            first = await server.engine.call("reserve", {"item": "a"}, caller=caller)
            assert first.code == "step_failed"
        async with served(database, on_error=OnError.HOLD) as server, anyio.create_task_group() as tasks:
            tasks.start_soon(partial(server.engine.call, "reserve", {"item": "a"}, caller=caller))
            await eventually(lambda: len(world.did("reserve")) == 1)
            tasks.cancel_scope.cancel()
        async with served(database, on_error=OnError.HOLD) as server:
            third = await server.engine.call("reserve", {"item": "a"}, caller=caller)
            assert (third.saga_id, third.step, third.code) == (first.saga_id, 2, "outcome_unknown")
    assert len(world.sent("reserve")) == 2
    assert world.standing == ["reserve(a)"]


async def test_the_key_of_a_saga_that_ended_says_how_it_ended(world: World, database: Path) -> None:
    """S8.4."""
    async with served(database) as server:
        kept = await server.engine.begin(Caller(), key="kept")
        undone = await server.engine.begin(Caller(), key="undone")
        await server.commit(kept.id)
        await server.abort(undone.id)
        with pytest.raises(SagaClosed):
            await server.engine.begin(Caller(), key="kept")
        with pytest.raises(SagaAborted):
            await server.engine.begin(Caller(), key="undone")
    assert world.order == []
