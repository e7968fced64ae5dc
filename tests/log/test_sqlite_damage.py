"""A damaged, foreign, lost or newer log is refused in words, and nothing is thrown away (CASES C67, C97, C108)."""

# ruff: noqa: ASYNC240 - a test may block: its loop serves nobody else

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import anyio
import pytest
from tests.log.decisions import committing, intending, looking, opening, succeeding
from tests.log.foreign import fill, foreign

from saga_mcp.domain.errors import LogUnavailable, SagaQuarantined
from saga_mcp.log.guard import ours
from saga_mcp.log.sql import SqlSagaLog, connect
from saga_mcp.log.sql.tables import EPOCH
from saga_mcp.log.sql.trouble import (
    LogDamaged,
    LogGone,
    LogNewer,
    LogTroubled,
    LogUpgraded,
)

# --- damaged, foreign, gone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"this is not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_named_and_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogDamaged, match=str(path)):
            await log.decide("sg-a", opening())
        with pytest.raises(LogDamaged):
            await log.sagas("ops")
    assert path.read_bytes() == content


@pytest.mark.case(108)
async def test_malformed_pages_are_reported_and_never_recreated(path: Path) -> None:
    await fill(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    damaged = path.read_bytes()
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogUnavailable, match="damaged"):
            await log.load("sg-a")
        with pytest.raises(LogUnavailable, match="damaged"):
            await log.decide("sg-b", opening())
    assert path.read_bytes() == damaged


async def test_nothing_keeps_an_error_once_its_caller_has_let_it_go(path: Path) -> None:
    """Errors keep the frames they went through, with all that a read had in its hands."""
    await fill(path)
    with foreign(path) as raw:
        raw.execute("UPDATE saga_event SET facts='[]' WHERE seq=2")
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(SagaQuarantined) as caught:
            await log.load("sg-a")
        error = weakref.ref(caught.value)
        del caught
        with anyio.fail_after(10):
            while error() is not None:
                gc.collect()
                await anyio.sleep(0.005)  # the thread may still be about to wait for more work


@pytest.mark.parametrize("statement", ["CREATE TABLE customers (id)", "PRAGMA application_id=1234"])
async def test_another_programs_database_is_not_touched(path: Path, statement: str) -> None:
    with foreign(path) as theirs:
        theirs.execute("PRAGMA user_version=3")
        theirs.execute(statement)
    before = path.read_bytes()
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogDamaged, match="another program"):
            await log.decide("sg-a", opening())
    assert path.read_bytes() == before


async def test_a_log_without_its_schema_number_is_damaged(path: Path) -> None:
    await fill(path)
    with foreign(path) as raw:
        raw.execute("DELETE FROM saga_log_meta")
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogDamaged, match="schema number"):
            await log.load("sg-a")


async def test_a_log_that_lost_a_table_says_so_and_fails_nothing_else(path: Path) -> None:
    await fill(path)
    with foreign(path) as raw:
        raw.execute("DROP TABLE saga_pair")
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogUnavailable, match="saga_pair"):
            await log.pair("p")
        assert (await log.load("sg-a")).seq == 3


async def test_a_copy_without_write_ahead_log_gets_one(path: Path) -> None:
    """What `sqlite3 FILE .recover` writes is in rollback-journal mode."""
    await fill(path)
    with foreign(path) as raw:
        assert raw.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    async with SqlSagaLog.open(path) as log:
        assert (await log.decide("sg-a", committing)).saga.seq == 4
        assert path.with_name("saga.db-wal").exists()


async def test_a_database_that_cannot_be_made_durable_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_DURABLE", {"journal_mode": "unheard"})
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogTroubled, match="journal_mode"):
            await log.decide("sg-a", opening())


async def test_a_log_that_is_deleted_while_in_use_is_not_started_anew(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        kept = path.with_name("moved.db")
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).rename(kept.with_name(kept.name + suffix))
        for _ in range(2):
            with pytest.raises(LogGone, match="moved, replaced or deleted"):
                await log.decide("sg-a", intending())
        assert not path.exists()
        for suffix in ("", "-wal", "-shm"):
            kept.with_name(kept.name + suffix).rename(path.with_name(path.name + suffix))
        assert (await log.decide("sg-a", intending())).saga.seq == 2


async def test_trouble_that_is_over_needs_no_restart(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogDamaged):
            await log.decide("sg-a", opening())
        with ours():  # a person's doing, in another process
            path.write_bytes(b"")
        assert (await log.decide("sg-a", opening())).saga.seq == 1


# --- newer, quarantined -----------------------------------------------------------------------------------------------


@pytest.mark.case(97)
async def test_a_log_of_a_newer_version_is_refused_in_one_line(path: Path) -> None:
    await fill(path)
    with foreign(path) as newer:
        newer.execute("UPDATE saga_log_meta SET epoch=?", (EPOCH + 1,))
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogNewer, match="newer saga-mcp") as refusal:
            await log.decide("sg-a", committing)
        assert "\n" not in str(refusal.value)


async def test_a_process_that_was_overtaken_by_an_upgrade_stops_writing(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        with foreign(path) as newer:
            newer.execute("UPDATE saga_log_meta SET epoch=?", (EPOCH + 1,))
        with pytest.raises(LogUpgraded, match="restart"):
            await log.decide("sg-a", intending())


@pytest.mark.case(67)
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE saga_event SET facts='{\"step\":' WHERE saga_id='sg-bad' AND seq=2",
        "UPDATE saga_event SET type='StepVanished' WHERE saga_id='sg-bad' AND seq=2",
        "UPDATE saga_event SET version=9 WHERE saga_id='sg-bad' AND seq=2",
        "DELETE FROM saga_event WHERE saga_id='sg-bad' AND seq=1",
        "DELETE FROM saga_event WHERE saga_id='sg-bad' AND seq=3",
        "UPDATE saga_event SET seq=4 WHERE saga_id='sg-bad' AND seq=3",
    ],
)
async def test_a_saga_that_cannot_be_read_stops_no_other(path: Path, damage: str) -> None:
    async with SqlSagaLog.open(path) as log:
        for name in ("sg-bad", "sg-good"):
            await log.decide(name, opening())
            await log.decide(name, intending())
            await log.decide(name, succeeding())
    with foreign(path) as raw:
        raw.execute(damage)
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(SagaQuarantined, match="sg-bad"):
            await log.load("sg-bad")
        with pytest.raises(SagaQuarantined):
            await log.decide("sg-bad", looking)
        assert {row.id for row in await log.sagas("ops")} == {"sg-bad", "sg-good"}
        assert (await log.load("sg-good")).seq == 3
        assert (await log.decide("sg-good", committing)).saga.seq == 4


async def test_the_history_of_a_saga_that_cannot_be_read_says_which_saga_it_is(path: Path) -> None:
    await fill(path)
    with foreign(path) as raw:
        raw.execute("UPDATE saga_event SET version=9 WHERE seq=2")
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(SagaQuarantined, match="sg-a"):
            await log.history("sg-a")
        assert len(await log.history("sg-a", limit=1)) == 1


async def test_a_quarantined_saga_does_not_fail_the_batch_it_is_in(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-bad", opening())
    with foreign(path) as raw:
        raw.execute("UPDATE saga_event SET facts='[]'")
    async with SqlSagaLog.open(path) as log, anyio.create_task_group() as group:
        group.start_soon(log.decide, "sg-good", opening())
        with pytest.raises(SagaQuarantined):
            await log.decide("sg-bad", committing)
        group.start_soon(log.decide, "sg-good", intending())
