"""Undo after the commit, against the world: what a person changed since stays, and nothing is done twice (S13)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.captures.files import Files
from tests.world.clock import NotingClock
from tests.world.failing import DoubtfulLog, DyingLog, Fault
from tests.world.reading import World
from tests.world.server import SETTINGS, Server, served, settles_at_once

from saga_mcp.domain.attention import summary
from saga_mcp.domain.errors import LogUnavailable, RevertRefused, SagaPruned
from saga_mcp.domain.events import Event, SagaReverted
from saga_mcp.domain.person_decisions import exempt, overwrite
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.values import ItemKind
from saga_mcp.engine.reverting import foreseen
from saga_mcp.log.port import SagaLog
from saga_mcp.log.sql import SqlSagaLog
from saga_tools import ToolRegistry, Undo

BEFORE = {"a": b"zero", "b": None, "c": b"untouched"}
LEFT = {"a": b"two", "b": b"new", "c": b"untouched"}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path / "files")
    files.root.mkdir()
    for name, content in BEFORE.items():
        if content is not None:
            files.put(name, content)
    return files


async def committed(server: Server) -> str:
    """A saga that wrote three times, and is kept."""
    saga_id = await server.begin()
    for name, text in (("a", "one"), ("b", "new"), ("a", "two")):
        await server.call("write", saga_id, name=name, text=text)
    await server.commit(saga_id)
    return saga_id


async def says(server: Server, saga_id: str, step: int, verb: Callable[..., tuple[Event, ...]]) -> None:
    """A person settles what waits at a step."""
    await server.engine.decide_item(saga_id, lambda now, driving: verb(now, step, by="ada", note="", driving=driving))


def there(files: Files) -> dict[str, bytes | None]:
    return {name: files.content(name) for name in BEFORE}


async def test_a_committed_saga_is_undone_newest_first_and_stays_committed(files: Files, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        old = await committed(server)
        files.sent.clear()
        new = await server.engine.revert(old, RevertOrder(by="ada", reason="wrong customer"))
        assert there(files) == BEFORE
        assert files.sent == ["restore(a)", "restore(b)", "restore(a)"]
        assert summary(new) == "compensated: 3 undone, 0 open"
        kept = await server.engine.saga(old)
        assert summary(kept) == f"committed: 3 done, 0 open; reverted by {new.id}"
        (row,) = [row for row in await server.log.sagas("ledger") if row.id == old]
        assert (row.state, row.reverted_by) == ("committed", new.id)


async def test_a_later_edit_of_a_person_stops_the_revert_and_is_not_overwritten(files: Files, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        old = await committed(server)
        files.put("b", b"mine")
        new = await server.engine.revert(old, RevertOrder(by="ada"))
        assert there(files) == {"a": b"one", "b": b"mine", "c": b"untouched"}
        (item,) = await server.items(new.id)
        assert (item.kind, new.step(item.step).undoes) == (ItemKind.GUARD_CONFLICT, 2)
        await says(server, new.id, item.step, exempt)
        await server.rest(new.id)
        assert there(files) == {"a": b"zero", "b": b"mine", "c": b"untouched"}
        assert summary(await server.engine.saga(new.id)) == "compensated: 2 undone, 1 exempt (ada), 0 open"


async def test_a_person_may_say_that_the_later_edit_goes(files: Files, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        old = await committed(server)
        files.put("b", b"mine")
        new = await server.engine.revert(old, RevertOrder(by="ada"))
        (item,) = await server.items(new.id)
        await says(server, new.id, item.step, overwrite)
        await server.rest(new.id)
        assert there(files) == BEFORE


async def test_a_saga_is_reverted_once_and_its_revert_is_none_that_can_be(files: Files, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        old = await committed(server)
        new = await server.engine.revert(old, RevertOrder(by="ada"))
        with pytest.raises(RevertRefused, match=f"reverted by {new.id} already"):
            await server.engine.revert(old, RevertOrder(by="ada"))
        with pytest.raises(RevertRefused, match="was not kept"):
            await server.engine.revert(new.id, RevertOrder(by="ada"))
        assert len(files.sent) == 6


async def test_of_two_processes_that_revert_at_once_exactly_one_does(files: Files, tmp_path: Path) -> None:
    database = tmp_path / "saga.db"
    async with served(database, tools=files.registry) as one, served(database, tools=files.registry) as other:
        old = await committed(one)
        files.sent.clear()
        opened: list[str] = []
        refused: list[str] = []

        async def revert(server: Server) -> None:
            try:
                opened.append((await server.engine.revert(old, RevertOrder(by="ada"))).id)
            except RevertRefused as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            for server in (one, other, one, other):
                tasks.start_soon(revert, server)
        (new,) = opened
        assert len(refused) == 3
        assert all(new in text for text in refused)
        await one.rest(new)
        assert there(files) == BEFORE
        assert files.sent == ["restore(a)", "restore(b)", "restore(a)"]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("stored", [False, True], ids=["before-it-is-stored", "after-it-is-stored"])
async def test_a_death_around_any_durable_write_loses_and_doubles_nothing(
    files: Files, tmp_path: Path, *, stored: bool
) -> None:
    """What a process may have changed when it died is a person's to judge, as in every rollback."""
    deaths = 0
    for at in count(1):
        database = tmp_path / f"{at}.db"
        for name, content in BEFORE.items():
            if content is None:
                files.path(name).unlink(missing_ok=True)
            else:
                files.put(name, content)
        async with served(database, tools=files.registry, adjust=settles_at_once) as first:
            old = await committed(first)
        died = await _dies_reverting(files, database, old, at=at, stored=stored)
        async with served(database, tools=files.registry, adjust=settles_at_once) as second:
            reverted = (await second.engine.saga(old)).reverted
            assert bool(reverted) == (at > 1 or stored)
            new = reverted[0].revert if reverted else (await second.engine.revert(old, RevertOrder(by="ada"))).id
            await _finished(second, new)
            assert (await second.engine.saga(old)).reverted[0].revert == new
            assert len(await second.log.sagas("ledger")) == 2
        assert there(files) == BEFORE
        if not died:
            break
        deaths += 1
    assert deaths >= 4


async def _dies_reverting(files: Files, database: Path, old: str, *, at: int, stored: bool) -> bool:
    logs: list[DyingLog] = []

    def dying(log: SagaLog) -> SagaLog:
        logs.append(DyingLog(log, at=at, stored=stored))
        return logs[0]

    async with served(database, tools=files.registry, wrap=dying, adjust=settles_at_once) as server:
        async with anyio.create_task_group() as life:

            async def death() -> None:
                await logs[0].died.wait()
                life.cancel_scope.cancel()

            life.start_soon(death)
            await server.engine.revert(old, RevertOrder(by="ada"))
            life.cancel_scope.cancel()
            return False
        return True


async def _finished(server: Server, saga_id: str) -> None:
    """To the end, with a person who knows that only the dead process can have touched the files."""
    for _ in range(4):
        await server.rest(saga_id)
        for item in await server.items(saga_id):
            assert item.kind is ItemKind.GUARD_CONFLICT
            await says(server, saga_id, item.step, overwrite)
    assert await server.state(saga_id) == "compensated"


@pytest.mark.parametrize("fault", [Fault.STORED_UNSETTLED, Fault.LOST_UNSETTLED])
async def test_a_log_that_does_not_say_whether_it_stored_a_revert_is_asked(
    files: Files, tmp_path: Path, fault: Fault
) -> None:
    def doubtful(log: SagaLog) -> SagaLog:
        return DoubtfulLog(log, fault, event=SagaReverted)

    async with served(tmp_path / "saga.db", tools=files.registry, wrap=doubtful) as server:
        old = await committed(server)
        with contextlib.suppress(LogUnavailable):
            await server.engine.revert(old, RevertOrder(by="ada"))
        if not (await server.engine.saga(old)).reverted:
            await server.engine.revert(old, RevertOrder(by="ada"))
        (reverted,) = (await server.engine.saga(old)).reverted
        await server.rest(reverted.revert)
        assert there(files) == BEFORE
        assert len(files.sent) == 6


async def test_an_undo_has_the_key_of_the_step_that_was_done(world: World, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db") as server:
        old = await server.begin()
        await server.call("book", old, item="seat")
        await server.commit(old)
        await server.engine.revert(old, RevertOrder(by="ada"))
    booked, unbooked = [line for line in world.lines if line.event == "did"]
    assert (booked.tool, unbooked.tool) == ("book", "unbook")
    assert unbooked.key == booked.key
    assert unbooked.undo_key == f"{booked.key}.u1.g0"


@pytest.mark.parametrize(
    ("days", "window_s", "why"),
    [(0.0, 0.0, "revert_window_s = 0"), (8.0, 604800.0, "committed 8 days ago, and only 7 days"), (6.0, 604800.0, "")],
    ids=["switched off", "too late", "in time"],
)
async def test_a_saga_can_be_reverted_for_as_long_as_the_config_says(
    files: Files, tmp_path: Path, *, days: float, window_s: float, why: str
) -> None:
    database = tmp_path / "saga.db"
    async with served(database, tools=files.registry) as server:
        old = await committed(server)
    settings = replace(SETTINGS, revert_window_s=window_s)
    async with served(database, tools=files.registry, settings=settings, clock=Later(days)) as server:
        if why:
            with pytest.raises(RevertRefused, match=why):
                await server.engine.revert(old, RevertOrder(by="ada"))
        else:
            await server.engine.revert(old, RevertOrder(by="ada"))
    assert there(files) == (LEFT if why else BEFORE)


async def test_a_saga_that_was_pruned_since_it_was_read_is_said_to_be(files: Files, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db", tools=files.registry) as server:
        old = await server.engine.saga(await committed(server))
        assert isinstance(server.log, SqlSagaLog)
        assert await server.log.prune(old.id, alerts_too=False) == ""
        with pytest.raises(SagaPruned):
            await foreseen(old, RevertOrder(by="ada"), server.log, SETTINGS, NotingClock())


class Later(NotingClock):
    """The clock of a machine some days later."""

    def __init__(self, days: float) -> None:
        super().__init__()
        self._days = days

    def wall(self) -> float:
        return super().wall() + self._days * 86400.0


async def test_the_agent_reverts_only_what_is_looked_at_first(world: World, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db") as server:
        old = await server.begin()
        await server.call("book", old, item="seat")
        await server.commit(old)
        with pytest.raises(RevertRefused, match=f"ask the operator: `saga-mcp revert {old}`"):
            await server.engine.revert(old, RevertOrder(by="agent", agent=True))
        assert [line.tool for line in world.lines if line.event == "did"] == ["book"]
        assert not (await server.engine.saga(old)).reverted


@pytest.mark.parametrize("step", [0, 2], ids=["whole", "one step"])
async def test_an_undo_sees_the_results_that_it_would_have_seen_in_an_abort(tmp_path: Path, step: int) -> None:
    tools, seen = ToolRegistry(), list[Mapping[str, Any]]()

    @tools.tool
    async def make() -> str:
        return "made"

    @tools.undoes(make)
    async def unmake() -> None:
        pass

    @tools.tool
    async def link() -> str:
        return "linked"

    @tools.undoes(link)
    async def unlink(undo: Undo[str]) -> None:
        seen.append(dict(undo.results))

    async with served(tmp_path / "saga.db", tools=tools) as server:
        aborted, kept = await server.begin(), await server.begin()
        for saga_id in (aborted, kept):
            await server.call("make", saga_id)
            await server.call("link", saga_id)
        await server.abort(aborted)
        await server.commit(kept)
        await server.engine.revert(kept, RevertOrder(by="ada", step=step))
    assert seen[0] == seen[1] == {"make": "made"}


async def test_past_its_pivot_a_person_undoes_a_saga_step_by_step(world: World, tmp_path: Path) -> None:
    async with served(tmp_path / "saga.db") as server:
        old = await server.begin()
        for item in ("seat", "room"):
            await server.call("book", old, item=item)
        await server.call("send_mail", old, to="ada")
        await server.commit(old)
        with pytest.raises(RevertRefused, match=f"point of no return.*saga-mcp revert {old} --step 2"):
            await server.engine.revert(old, RevertOrder(by="ada"))
        with pytest.raises(RevertRefused, match="step 3 is none that can be undone; these can: 2, 1"):
            await server.engine.revert(old, RevertOrder(by="ada", step=3))
        first = await server.engine.revert(old, RevertOrder(by="ada", step=1))
        assert [line.args["item"] for line in world.lines if line.tool == "unbook" and line.event == "did"] == ["seat"]
        assert summary(await server.engine.saga(old)).endswith(f"; reverted by {first.id} (step 1)")
        with pytest.raises(RevertRefused, match="these can: 2"):
            await server.engine.revert(old, RevertOrder(by="ada", step=1))
        second = await server.engine.revert(old, RevertOrder(by="ada", step=2))
        assert summary(await server.engine.saga(old)).endswith(
            f"; reverted by {first.id} (step 1), {second.id} (step 2)"
        )
        assert not (await server.items(second.id))
