"""What can be wrong with a SQLite file, and that nothing is stored or thrown away then (CASES C45, C67, C97, C108)."""

# ruff: noqa: ASYNC221, ASYNC240 - a test may block: its loop serves nobody else

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.log.decisions import committing, intending, looking, opening, succeeding

from saga_mcp.domain.errors import LogUnavailable, SagaNotFound, SagaQuarantined
from saga_mcp.log.port import SagaLog
from saga_mcp.log.sql import SqlSagaLog, connect
from saga_mcp.log.sql import log as log_module
from saga_mcp.log.sql.files import NETWORK_FILE_SYSTEMS, file_system_of
from saga_mcp.log.sql.tables import EPOCH
from saga_mcp.log.sql.trouble import (
    LogClosed,
    LogDamaged,
    LogFull,
    LogGone,
    LogLocked,
    LogNewer,
    LogOnNetwork,
    LogReadOnly,
    LogTroubled,
    LogUpgraded,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "saga.db"


@contextlib.contextmanager
def foreign(path: Path) -> Generator[sqlite3.Connection]:
    """Another program's connection to the file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


async def fill(url: str) -> None:
    async with SqlSagaLog.open(url) as log:
        await log.decide("sg-a", opening())
        await log.decide("sg-a", intending(text="x" * 20_000))
        await log.decide("sg-a", succeeding())


# --- locked -----------------------------------------------------------------------------------------------------------


async def test_under_a_foreign_write_lock_reads_go_on_and_writes_give_up_in_time(url: str, path: Path) -> None:
    """C45."""
    async with SqlSagaLog.open(url, busy_budget_s=0.5) as log:
        await log.decide("sg-a", opening())
        with foreign(path) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            started = time.monotonic()
            with pytest.raises(LogLocked, match=r"locked by another program.*nothing was stored and nothing was sent"):
                await log.decide("sg-a", intending())
            assert 0.4 < time.monotonic() - started < 3
            assert (await log.load("sg-a")).seq == 1
            assert [row.id for row in await log.sagas("ops")] == ["sg-a"]
            assert await log.busy_sagas("ops") == []
        assert (await log.decide("sg-a", intending())).saga.seq == 2


async def test_a_foreign_write_lock_that_ends_in_time_is_waited_for(url: str, path: Path) -> None:
    async with SqlSagaLog.open(url) as log:
        await log.decide("sg-a", opening())
        with foreign(path) as holder, anyio.fail_after(10):
            holder.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(log.decide, "sg-a", intending())
                await anyio.sleep(0.5)  # well beyond one attempt
                assert (await log.load("sg-a")).seq == 1
                holder.execute("COMMIT")
        assert (await log.load("sg-a")).seq == 6


async def test_a_process_that_starts_under_a_foreign_lock_serves_reads(url: str, path: Path) -> None:
    await fill(url)
    with foreign(path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        async with SqlSagaLog.open(url, busy_budget_s=0.2) as log:
            assert (await log.load("sg-a")).seq == 3
            with pytest.raises(LogLocked):
                await log.decide("sg-b", opening())


async def test_a_file_that_somebody_has_for_himself_cannot_be_read(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(url)
    monkeypatch.setattr(connect, "_WAIT_MS", 20)
    monkeypatch.setattr(log_module, "SETUP_WAIT_S", 0.1)
    with foreign(path) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        async with SqlSagaLog.open(url) as log:
            with pytest.raises(LogLocked):
                await log.load("sg-a")
            holder.close()
            assert (await log.load("sg-a")).seq == 3


async def test_closing_does_not_wait_for_a_foreign_lock(url: str, path: Path) -> None:
    with anyio.fail_after(5):
        async with SqlSagaLog.open(url) as log, anyio.create_task_group() as group:
            await log.decide("sg-a", opening())
            with foreign(path) as holder:
                holder.execute("BEGIN IMMEDIATE")

                async def refused() -> None:
                    with pytest.raises(LogLocked):
                        await log.decide("sg-a", intending())

                group.start_soon(refused)
                await anyio.sleep(0.05)
                await log.aclose()
                with pytest.raises(LogClosed):
                    await log.decide("sg-a", intending())


# --- full, read-only --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("mounting takes root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)  # noqa: S607 - the system's own


async def test_a_full_disk_refuses_the_step_and_works_again_after_space_is_freed(small_disk: Path) -> None:
    """C108."""
    async with SqlSagaLog.open(f"sqlite:///{small_disk / 'saga.db'}") as log:
        await log.decide("sg-a", opening())
        before = (await log.load("sg-a")).seq
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        with pytest.raises(LogFull, match="nothing was sent"):
            await log.decide("sg-a", intending(text="x" * 50_000))
        assert (await log.load("sg-a")).seq == before
        ballast.unlink()
        assert (await log.decide("sg-a", intending(text="x" * 50_000))).saga.seq == before + 1
    async with SqlSagaLog.open(f"sqlite:///{small_disk / 'saga.db'}") as log:
        assert (await log.load("sg-a")).seq == before + 1


async def test_a_read_only_file_system_refuses_writes_by_name_of_the_file(small_disk: Path) -> None:
    path = small_disk / "saga.db"
    await fill(f"sqlite:///{path}")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S607 - the system's own
    async with SqlSagaLog.open(f"sqlite:///{path}") as log:
        with pytest.raises(LogReadOnly, match=str(path)):
            await log.decide("sg-a", committing)


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the directory should be")
    async with SqlSagaLog.open(f"sqlite:///{tmp_path}/data/saga.db", make_parent=True) as log:
        with pytest.raises(LogReadOnly, match="data"):
            await log.decide("sg-a", opening())


async def test_a_disk_without_room_for_the_file_itself_is_full(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with SqlSagaLog.open(url) as log:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", no_room)
            with pytest.raises(LogFull, match=str(path)):
                await log.decide("sg-a", opening())
        assert (await log.decide("sg-a", opening())).saga.seq == 1


async def test_a_directory_that_is_not_there_is_not_made_up(tmp_path: Path) -> None:
    """It may be on a volume that is not mounted: an empty new log would mean lost undos."""
    place = tmp_path / "volume"
    async with SqlSagaLog.open(f"sqlite:///{place}/saga.db") as log:
        with pytest.raises(LogReadOnly, match="mount"):
            await log.decide("sg-a", opening())
        assert not place.exists()
        place.mkdir()
        assert (await log.decide("sg-a", opening())).saga.seq == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
async def test_only_this_user_may_read_the_log(tmp_path: Path) -> None:
    place = tmp_path / "data" / "saga-mcp"
    old = os.umask(0)
    try:
        async with SqlSagaLog.open(f"sqlite:///{place}/saga.db", make_parent=True) as log:
            await log.decide("sg-a", opening())
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()}
    finally:
        os.umask(old)
    assert modes == {"saga.db": 0o600, "saga.db-wal": 0o600, "saga.db-shm": 0o600}
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


# --- damaged, foreign, gone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"this is not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_named_and_left_as_it_is(url: str, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogDamaged, match=str(path)):
            await log.decide("sg-a", opening())
        with pytest.raises(LogDamaged):
            await log.sagas("ops")
    assert path.read_bytes() == content


async def test_malformed_pages_are_reported_and_never_recreated(url: str, path: Path) -> None:
    await fill(url)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    damaged = path.read_bytes()
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogUnavailable, match="damaged"):
            await log.load("sg-a")
        with pytest.raises(LogUnavailable, match="damaged"):
            await log.decide("sg-b", opening())
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("statement", ["CREATE TABLE customers (id)", "PRAGMA application_id=1234"])
async def test_another_programs_database_is_not_touched(url: str, path: Path, statement: str) -> None:
    with foreign(path) as theirs:
        theirs.execute("PRAGMA user_version=3")
        theirs.execute(statement)
    before = path.read_bytes()
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogDamaged, match="another program"):
            await log.decide("sg-a", opening())
    assert path.read_bytes() == before


async def test_a_log_without_its_schema_number_is_damaged(url: str, path: Path) -> None:
    await fill(url)
    with foreign(path) as raw:
        raw.execute("DELETE FROM saga_log_meta")
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogDamaged, match="schema number"):
            await log.load("sg-a")


async def test_a_log_that_lost_a_table_says_so_and_fails_nothing_else(url: str, path: Path) -> None:
    await fill(url)
    with foreign(path) as raw:
        raw.execute("DROP TABLE saga_pair")
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogUnavailable, match="saga_pair"):
            await log.pair("p")
        assert (await log.load("sg-a")).seq == 3


async def test_a_copy_without_write_ahead_log_gets_one(url: str, path: Path) -> None:
    """What `sqlite3 FILE .recover` writes is in rollback-journal mode."""
    await fill(url)
    with foreign(path) as raw:
        assert raw.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    async with SqlSagaLog.open(url) as log:
        assert (await log.decide("sg-a", committing)).saga.seq == 4
        assert path.with_name("saga.db-wal").exists()


async def test_a_database_that_cannot_be_made_durable_is_not_used(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_DURABLE", {"journal_mode": "unheard"})
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogTroubled, match="journal_mode"):
            await log.decide("sg-a", opening())


async def test_a_log_that_is_deleted_while_in_use_is_not_started_anew(url: str, path: Path) -> None:
    async with SqlSagaLog.open(url) as log:
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


async def test_trouble_that_is_over_needs_no_restart(url: str, path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogDamaged):
            await log.decide("sg-a", opening())
        path.write_bytes(b"")
        assert (await log.decide("sg-a", opening())).saga.seq == 1


# --- newer, quarantined -----------------------------------------------------------------------------------------------


async def test_a_log_of_a_newer_version_is_refused_in_one_line(url: str, path: Path) -> None:
    """C97."""
    await fill(url)
    with foreign(path) as newer:
        newer.execute("UPDATE saga_log_meta SET epoch=?", (EPOCH + 1,))
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(LogNewer, match="newer saga-mcp") as refusal:
            await log.decide("sg-a", committing)
        assert "\n" not in str(refusal.value)


async def test_a_process_that_was_overtaken_by_an_upgrade_stops_writing(url: str, path: Path) -> None:
    async with SqlSagaLog.open(url) as log:
        await log.decide("sg-a", opening())
        with foreign(path) as newer:
            newer.execute("UPDATE saga_log_meta SET epoch=?", (EPOCH + 1,))
        with pytest.raises(LogUpgraded, match="restart"):
            await log.decide("sg-a", intending())


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
async def test_a_saga_that_cannot_be_read_stops_no_other(url: str, path: Path, damage: str) -> None:
    """C67."""
    async with SqlSagaLog.open(url) as log:
        for name in ("sg-bad", "sg-good"):
            await log.decide(name, opening())
            await log.decide(name, intending())
            await log.decide(name, succeeding())
    with foreign(path) as raw:
        raw.execute(damage)
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(SagaQuarantined, match="sg-bad"):
            await log.load("sg-bad")
        with pytest.raises(SagaQuarantined):
            await log.decide("sg-bad", looking)
        assert {row.id for row in await log.sagas("ops")} == {"sg-bad", "sg-good"}
        assert (await log.load("sg-good")).seq == 3
        assert (await log.decide("sg-good", committing)).saga.seq == 4


async def test_the_history_of_a_saga_that_cannot_be_read_says_which_saga_it_is(url: str, path: Path) -> None:
    await fill(url)
    with foreign(path) as raw:
        raw.execute("UPDATE saga_event SET version=9 WHERE seq=2")
    async with SqlSagaLog.open(url) as log:
        with pytest.raises(SagaQuarantined, match="sg-a"):
            await log.history("sg-a")
        assert len(await log.history("sg-a", limit=1)) == 1


async def test_a_quarantined_saga_does_not_fail_the_batch_it_is_in(url: str, path: Path) -> None:
    async with SqlSagaLog.open(url) as log:
        await log.decide("sg-bad", opening())
    with foreign(path) as raw:
        raw.execute("UPDATE saga_event SET facts='[]'")
    async with SqlSagaLog.open(url) as log, anyio.create_task_group() as group:
        group.start_soon(log.decide, "sg-good", opening())
        with pytest.raises(SagaQuarantined):
            await log.decide("sg-bad", committing)
        group.start_soon(log.decide, "sg-good", intending())


# --- where it lies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
async def test_a_network_file_system_is_refused_before_a_file_is_made(url: str, path: Path, kind: str) -> None:
    async with SqlSagaLog.open(url, file_system_of=lambda _: kind) as log:
        with pytest.raises(LogOnNetwork, match=kind):
            await log.decide("sg-a", opening())
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads mountinfo")
def test_the_file_system_is_found_by_the_nearest_mount(tmp_path: Path) -> None:
    assert file_system_of(Path("/proc/self/saga.db")) == "proc"
    assert file_system_of(tmp_path / "not there yet" / "saga.db") not in NETWORK_FILE_SYSTEMS | {""}


@pytest.mark.parametrize("url", ["sqlite:///saga.db", "sqlite://", "mysql:///x"])
async def test_a_url_that_names_no_file_by_its_full_path_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        async with SqlSagaLog.open(url):
            pass


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_closing_is_idempotent_and_leaves_one_plain_file(url: str, path: Path) -> None:
    async with SqlSagaLog.open(url) as log:
        await log.decide("sg-a", opening())
        await log.aclose()
        await log.aclose()
        with pytest.raises(LogClosed):
            await log.load("sg-a")
    assert [file.name for file in path.parent.iterdir()] == ["saga.db"]
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    async with SqlSagaLog.open(f"sqlite:///{copy}") as log:
        assert (await log.load("sg-a")).seq == 1


async def test_what_was_handed_in_before_the_end_is_written(url: str) -> None:
    async with SqlSagaLog.open(url) as log, anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(log.decide, f"sg-{number}", opening())
        await anyio.lowlevel.checkpoint()
        await log.aclose()
    async with SqlSagaLog.open(url) as log:
        assert len(await log.sagas("ops")) == 50


async def test_a_log_that_is_left_under_cancellation_closes_its_files(url: str, path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with SqlSagaLog.open(url) as log:
            await log.decide("sg-a", opening())
            scope.cancel()
    assert [file.name for file in path.parent.iterdir()] == ["saga.db"]


def test_a_log_that_nobody_closed_does_not_keep_the_process(url: str) -> None:
    """C100."""
    script = f"""
import asyncio, sys
from saga_mcp.log.sql import SqlSagaLog, connect
from saga_mcp.log.sql import log as log_module
from tests.log.decisions import opening
async def main():
    log = await SqlSagaLog.open({url!r}).__aenter__()
    await log.decide("sg-a", opening())
    await log.load("sg-a")
    kept.append(log)
kept = []
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=10, cwd=Path(__file__).parents[2])


async def test_an_unknown_saga_is_not_found(log: SagaLog) -> None:
    with pytest.raises(SagaNotFound):
        await log.load("sg-none")
