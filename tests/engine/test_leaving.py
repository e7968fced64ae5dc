"""What one server lacks the tools for it leaves to others of its realm, while there are any."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.engine.test_hosts import Leaping
from tests.world.reading import World
from tests.world.server import BOUND_S, Server, eventually, served

from saga_mcp.domain.attention import items
from saga_mcp.domain.events import SagaClaimed
from saga_mcp.domain.values import ItemKind, Phase
from saga_mcp.log.owners import FileOwners
from saga_tools import ToolRegistry


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether other servers of the realm are said to live: engines of one process do not see each other's locks."""
    said = [True]

    async def others_serve(_: FileOwners, realm: str) -> bool:
        assert realm == "ledger"
        return said[0]

    monkeypatch.setattr(FileOwners, "others_serve", others_serve)
    return said


async def claims(server: Server, saga_id: str) -> int:
    return sum(isinstance(record.event, SagaClaimed) for record in await server.log.history(saga_id))


async def test_what_a_server_has_not_got_the_tools_for_is_undone_by_another_one(
    world: World, database: Path, others: list[bool]
) -> None:
    del others
    async with served(database) as rich:
        saga_id = await rich.begin()
        for item in ("a", "b"):
            await rich.call("reserve", saga_id, item=item)
        async with served(database, tools=ToolRegistry()) as poor:
            assert (await poor.abort(saga_id)).phase is Phase.COMPENSATED
        assert await claims(rich, saga_id) <= 4
    assert world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


async def test_what_no_server_has_the_tools_for_is_a_persons_after_ten_minutes_and_nobody_hands_it_about(
    world: World, database: Path, others: list[bool]
) -> None:
    del others
    clock = Leaping()
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
    async with (
        served(database, tools=ToolRegistry(), clock=clock, reply_within_s=0.1) as one,
        served(database, tools=ToolRegistry(), clock=clock, reply_within_s=0.1) as another,
    ):
        await one.abort(saga_id)
        await anyio.sleep(1.0)  # twenty scans of each: what does not happen has no event
        assert await claims(one, saga_id) <= 4
        assert items(await one.engine.saga(saga_id)) == ()
        clock.ahead_s = 601.0
        saga = await another.until(saga_id, lambda saga: bool(items(saga)))
        assert items(saga)[0].kind is ItemKind.TARGET_CHANGED
    assert world.sent("release") == []


async def test_the_only_server_tells_a_person_at_once(world: World, database: Path, others: list[bool]) -> None:
    others[0] = False
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
    async with served(database, tools=ToolRegistry()) as poor:
        with anyio.fail_after(BOUND_S):
            assert items(await poor.abort(saga_id)) != ()
    assert world.sent("release") == []


async def test_a_server_whose_realm_has_another_driver_says_that_it_undoes_nothing(
    world: World, database: Path
) -> None:
    async with served(database, reply_within_s=0.5) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        assert server.engine.driver_trouble == ""
        await server.log.name_driver("ledger", "temporal", was=await server.log.driver_of("ledger") or "")
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATING
        await eventually(lambda: '"temporal"' in server.engine.driver_trouble)
    assert world.sent("release") == []
