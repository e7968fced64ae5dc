"""How many sagas one caller of a shared server may have open: those that are there, and those that are being opened."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.world.reading import World
from tests.world.server import Server, eventually, served

from saga_mcp.domain.errors import LimitReached
from saga_mcp.domain.ownership import Principal
from saga_mcp.edge.owned import CallerLimits, OwnedSagas, Owners
from saga_mcp.engine.port import Caller, CallReply


def door(server: Server, most: int) -> OwnedSagas:
    return OwnedSagas(server.engine, Principal(id="alice"), Owners(), CallerLimits(open_sagas=most))


def alice(conversation: str = "") -> Caller:
    return Caller(id="alice", remote=True, conversation=conversation)


async def reserve(sagas: OwnedSagas, conversation: str = "", **arguments: Any) -> CallReply:  # noqa: ANN401 - JSON
    return await sagas.call("reserve", arguments, caller=alice(conversation))


async def test_a_key_finds_its_saga_at_the_limit_too(world: World, database: Path) -> None:
    """S8.4: nothing is opened."""
    async with served(database) as server:
        sagas = door(server, 1)
        first = await sagas.begin(alice(), key="order-7")
        assert (await sagas.begin(alice(), key="order-7")).id == first.id
        with pytest.raises(LimitReached):
            await sagas.begin(alice(), key="order-8")
    assert world.order == []


async def test_a_call_whose_saga_is_open_by_now_counts_once_while_it_runs(world: World, database: Path) -> None:
    async with served(database) as server, anyio.create_task_group() as tasks:
        sagas = door(server, 3)
        for item in ("a", "b"):
            tasks.start_soon(partial(reserve, sagas, item=item, mode="hang_before"))
        await eventually(lambda: len(world.sent("reserve")) == 2)
        await reserve(sagas, item="c")
        with pytest.raises(LimitReached, match="3 of your sagas"):
            await reserve(sagas, item="d")
        world.go()
    assert sorted(world.order) == ["reserve(a)", "reserve(b)", "reserve(c)"]


async def test_the_calls_of_one_turn_open_no_saga_beyond_the_limit(world: World, database: Path) -> None:
    """The one that names the saga is refused, and so is the one that would join it."""
    async with served(database) as server:
        sagas = door(server, 1)
        await sagas.begin(alice())
        refused: list[str] = []

        async def call(conversation: str, item: str) -> None:
            with pytest.raises(LimitReached):
                await reserve(sagas, conversation, item=item)
            refused.append(item)

        for turn in range(3):
            async with anyio.create_task_group() as both:
                both.start_soon(call, f"thread {turn}", "a")
                both.start_soon(call, f"thread {turn}", "b")
        assert len(refused) == 6
        assert len(await server.engine.open_sagas(alice())) == 1
    assert world.order == []


async def test_the_calls_of_one_turn_open_one_saga_where_there_is_room_for_one(world: World, database: Path) -> None:
    async with served(database) as server:
        sagas = door(server, 1)
        opened: set[str] = set()

        async def call(item: str) -> None:
            opened.add((await reserve(sagas, "thread", item=item)).saga_id)

        async with anyio.create_task_group() as both:
            both.start_soon(call, "a")
            both.start_soon(call, "b")
        assert len(opened) == 1
    assert sorted(world.order) == ["reserve(a)", "reserve(b)"]
