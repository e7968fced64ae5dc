"""Values that go by themselves while a server lives, judged by the bytes of the database (SEMANTICS.md S11.5)."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
import structlog.testing
from tests.world.clock import ManualClock
from tests.world.server import BOUND_S, SETTINGS, Server, served

from saga_mcp.domain.errors import SagaPruned
from saga_mcp.domain.values import Phase
from saga_mcp.engine.port import EngineSettings
from saga_mcp.engine.wiping import EVERY_S, wiping
from saga_mcp.log.chain import Broken, Link, Row
from saga_mcp.log.chain import check as follow_chain
from saga_mcp.log.sql import SqlSagaLog, keeping

VALUE = "hunter2-of-the-world"
DAY_S = 86400.0
KEPT_A_DAY = replace(SETTINGS, revert_window_s=DAY_S)


class LaterClock(ManualClock):
    """Stands still after whatever is stored meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = time.time()

    def wall(self) -> float:
        return self._begun + self.now()


@asynccontextmanager
async def watched(
    database: Path, clock: ManualClock, settings: EngineSettings = SETTINGS
) -> AsyncGenerator[SqlSagaLog]:
    """Wipe as a server does, by a clock that stands still."""
    async with SqlSagaLog.open(database) as log, wiping(log, settings, clock):
        yield log


async def passed(clock: ManualClock, seconds: float, *, watches: int = 1) -> None:
    await clock.asleep_for(EVERY_S, sleepers=watches)
    clock.advance(seconds)
    await clock.asleep_for(EVERY_S, sleepers=watches)


def found_on_disk(database: Path) -> bool:
    """Whether the value stands in the database or beside it; another process looks, for this one has it open."""
    files = [file for file in database.parent.glob(f"{database.name}*") if file.is_file()]
    return subprocess.run(["grep", "-qaF", VALUE, *files], check=False).returncode == 0  # noqa: S607 - any grep does


async def wipes(server: Server, saga_id: str) -> int:
    return (await server.history(saga_id)).count("SagaWiped")


@pytest.mark.usefixtures("world")
async def test_values_go_once_nothing_needs_them_and_not_before(database: Path) -> None:
    clock = LaterClock()
    async with served(database, settings=KEPT_A_DAY) as server, watched(database, clock, KEPT_A_DAY):
        is_open = (await server.call("reserve", item=VALUE)).saga_id
        committed = (await server.call("reserve", item=VALUE)).saga_id
        await server.commit(committed)
        aborted = (await server.call("reserve", item=VALUE)).saga_id
        await server.abort(aborted)
        await passed(clock, EVERY_S)
        assert [await wipes(server, each) for each in (is_open, committed, aborted)] == [0, 0, 1]
        await passed(clock, DAY_S)
        assert [await wipes(server, each) for each in (is_open, committed, aborted)] == [0, 1, 1]
        assert found_on_disk(database)
        await server.abort(is_open)
        await passed(clock, EVERY_S)
        assert not found_on_disk(database)


@pytest.mark.usefixtures("world")
async def test_what_waits_for_a_person_keeps_its_values(database: Path) -> None:
    clock = LaterClock()
    async with served(database) as server, watched(database, clock):
        waits = (await server.call("post", to=VALUE)).saga_id
        await server.abort(waits)
        await passed(clock, EVERY_S)
        assert await server.items(waits)
        assert await wipes(server, waits) == 0


@pytest.mark.usefixtures("world")
async def test_two_servers_wipe_a_saga_once_while_one_of_them_works(database: Path) -> None:
    clock = LaterClock()
    async with served(database) as server, watched(database, clock), watched(database, clock):
        ended = [(await server.call("reserve", item=VALUE)).saga_id for _ in range(5)]
        for each in ended:
            await server.abort(each)
        await passed(clock, EVERY_S, watches=2)
        assert [await wipes(server, each) for each in ended] == [1] * 5
        with anyio.fail_after(BOUND_S):
            while found_on_disk(database):  # whoever reads just then holds up the overwriting until the next watch
                await passed(clock, EVERY_S, watches=2)


@pytest.mark.usefixtures("world")
async def test_a_saga_that_another_server_wipes_while_it_is_checked_is_not_said_to_have_been_changed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wiped_by_another() -> None:
        async with SqlSagaLog.open(database) as another:
            assert await another.wipe(ended) == ""

    def meanwhile(row: Row, events: Sequence[Link]) -> Broken | None:
        monkeypatch.setattr(keeping, "check", follow_chain)
        anyio.run(wiped_by_another)  # this is a thread of its own, which reads
        return follow_chain(row, events)

    async with served(database) as server:
        ended = (await server.call("reserve", item=VALUE)).saga_id
        await server.abort(ended)
        async with SqlSagaLog.open(database) as log:
            monkeypatch.setattr(keeping, "check", meanwhile)
            assert await log.wipe(ended) == ""
        assert await wipes(server, ended) == 1


@pytest.mark.usefixtures("world")
async def test_a_saga_that_was_changed_by_hand_is_left_and_told_once(database: Path) -> None:
    clock = LaterClock()
    async with served(database) as server:
        changed = (await server.call("reserve", item=VALUE)).saga_id
        await server.abort(changed)
        with closing(sqlite3.connect(database)) as raw, raw:
            raw.execute("UPDATE saga_event SET at = at + 1 WHERE seq = 2")
        with structlog.testing.capture_logs() as logged:
            async with watched(database, clock):
                await passed(clock, EVERY_S)
        assert await wipes(server, changed) == 0
        [told] = [line for line in logged if line["event"] == "values_not_wiped"]
        assert (told["log_level"], told["saga_id"]) == ("warning", changed)
        assert "saga-mcp verify" in told["reason"]


@pytest.mark.usefixtures("world")
async def test_what_a_killed_server_wiped_and_did_not_overwrite_goes_at_the_next_start(database: Path) -> None:
    clock = LaterClock()
    async with served(database) as server:
        ended = (await server.call("reserve", item=VALUE)).saga_id
        await server.abort(ended)
        async with SqlSagaLog.open(database) as killed:
            await killed.wipe(ended)
        assert found_on_disk(database)
        async with watched(database, clock):
            await clock.asleep_for(EVERY_S)
            assert not found_on_disk(database)


@pytest.mark.usefixtures("world")
async def test_two_that_prune_at_once_beside_a_server_that_works_remove_a_saga_once(database: Path) -> None:
    async with served(database) as server, SqlSagaLog.open(database) as one, SqlSagaLog.open(database) as two:
        ended = [(await server.call("reserve", item=VALUE)).saga_id for _ in range(3)]
        for each in ended:
            await server.abort(each)
        said: dict[str, list[str]] = {each: [] for each in ended}
        works = (await server.call("reserve", item="a")).saga_id

        async def prune(log: SqlSagaLog) -> None:
            for each in ended:
                said[each].append(await log.prune(each, alerts_too=False))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prune, one)
            tasks.start_soon(prune, two)
            for item in "bcd":
                await server.call("reserve", works, item=item)
        assert all(sorted(each) == ["", "it is gone already"] for each in said.values())
        for each in ended:
            with pytest.raises(SagaPruned):
                await server.engine.saga(each)
            with pytest.raises(SagaPruned):
                await server.call("reserve", each, item="x")
        assert (await server.abort(works)).phase is Phase.COMPENSATED
