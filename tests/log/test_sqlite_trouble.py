"""What can be wrong with a SQLite file, and that nothing is stored or thrown away then (CASES C45, C67, C97, C108)."""

# ruff: noqa: ASYNC240 - a test may block: its loop serves nobody else

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import Engine, event
from tests.log.decisions import committing, intending, opening
from tests.log.foreign import fill, foreign
from tests.world.disk import fill_up, make_read_only

from saga_mcp.domain.errors import SagaNotFound
from saga_mcp.log.port import SagaLog
from saga_mcp.log.sql import SqlSagaLog, connect
from saga_mcp.log.sql import log as log_module
from saga_mcp.log.sql.files import NETWORK_FILE_SYSTEMS, file_system_of
from saga_mcp.log.sql.trouble import (
    LogClosed,
    LogFull,
    LogLocked,
    LogOnNetwork,
    LogReadOnly,
)

# --- locked -----------------------------------------------------------------------------------------------------------


@pytest.mark.case(45)
async def test_under_a_foreign_write_lock_reads_go_on_and_writes_give_up_in_time(path: Path) -> None:
    async with SqlSagaLog.open(path, busy_budget_s=0.5) as log:
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


async def test_a_foreign_write_lock_that_ends_in_time_is_waited_for(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
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


async def test_a_process_that_starts_under_a_foreign_lock_serves_reads(path: Path) -> None:
    await fill(path)
    with foreign(path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        async with SqlSagaLog.open(path, busy_budget_s=0.2) as log:
            assert (await log.load("sg-a")).seq == 3
            with pytest.raises(LogLocked):
                await log.decide("sg-b", opening())


async def test_a_file_that_somebody_has_for_himself_cannot_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(path)
    monkeypatch.setattr(connect, "_WAIT_MS", 20)
    monkeypatch.setattr(log_module, "SETUP_WAIT_S", 0.1)
    with foreign(path) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        async with SqlSagaLog.open(path) as log:
            with pytest.raises(LogLocked):
                await log.load("sg-a")
            holder.close()
            assert (await log.load("sg-a")).seq == 3


async def test_closing_does_not_wait_for_a_foreign_lock(path: Path) -> None:
    with anyio.fail_after(5):
        async with SqlSagaLog.open(path) as log, anyio.create_task_group() as group:
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


class NextStatement:
    """Tells when the next statement is handed to SQLite, and whether SQLite has given it back."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.over = False
        self._loop = asyncio.get_running_loop()

    def begins(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)

    def ends(self, *_: object) -> None:
        self.over = True


@contextlib.contextmanager
def next_statement() -> Generator[NextStatement]:
    one = NextStatement()
    hooks = {"before_cursor_execute": one.begins, "after_cursor_execute": one.ends, "handle_error": one.ends}
    for name, hook in hooks.items():
        event.listen(Engine, name, hook)
    try:
        yield one
    finally:
        for name, hook in hooks.items():
            event.remove(Engine, name, hook)


@pytest.mark.case(100)
async def test_closing_does_not_wait_for_a_read_that_waits_for_a_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts wait a little and then kill, and people press Ctrl-C once."""
    await fill(path)
    monkeypatch.setattr(connect, "_WAIT_MS", 4000)  # less than the end of a write may take
    with foreign(path) as holder, next_statement() as read:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        with anyio.fail_after(10):
            async with SqlSagaLog.open(path) as log, anyio.create_task_group() as group:
                group.start_soon(log.load, "sg-a")
                await read.begun.wait()
                group.cancel_scope.cancel()
        assert not read.over


# --- full, read-only --------------------------------------------------------------------------------------------------


@pytest.mark.case(108)
async def test_a_full_disk_refuses_the_step_and_works_again_after_space_is_freed(small_disk: Path) -> None:
    async with SqlSagaLog.open(small_disk / "saga.db") as log:
        await log.decide("sg-a", opening())
        before = (await log.load("sg-a")).seq
        ballast = fill_up(small_disk)
        with pytest.raises(LogFull, match="nothing was sent"):
            await log.decide("sg-a", intending(text="x" * 50_000))
        assert (await log.load("sg-a")).seq == before
        ballast.unlink()
        assert (await log.decide("sg-a", intending(text="x" * 50_000))).saga.seq == before + 1
    async with SqlSagaLog.open(small_disk / "saga.db") as log:
        assert (await log.load("sg-a")).seq == before + 1


async def test_a_read_only_file_system_refuses_writes_by_name_of_the_file(small_disk: Path) -> None:
    path = small_disk / "saga.db"
    await fill(path)
    make_read_only(small_disk)
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogReadOnly, match=str(path)):
            await log.decide("sg-a", committing)


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the directory should be")
    async with SqlSagaLog.open(tmp_path / "data/saga.db", make_parent=True) as log:
        with pytest.raises(LogReadOnly, match="data"):
            await log.decide("sg-a", opening())


async def test_a_disk_without_room_for_the_file_itself_is_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with SqlSagaLog.open(path) as log:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", no_room)
            with pytest.raises(LogFull, match=str(path)):
                await log.decide("sg-a", opening())
        assert (await log.decide("sg-a", opening())).saga.seq == 1


async def test_a_directory_that_is_not_there_is_not_made_up(tmp_path: Path) -> None:
    """It may be on a volume that is not mounted: an empty new log would mean lost undos."""
    place = tmp_path / "volume"
    async with SqlSagaLog.open(place / "saga.db") as log:
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
        async with SqlSagaLog.open(place / "saga.db", make_parent=True) as log:
            await log.decide("sg-a", opening())
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()}
    finally:
        os.umask(old)
    assert modes == {"saga.db": 0o600, "saga.db-wal": 0o600, "saga.db-shm": 0o600}
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


# --- where it lies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
@pytest.mark.case(108)
async def test_a_network_file_system_is_refused_before_a_file_is_made(path: Path, kind: str) -> None:
    async with SqlSagaLog.open(path, file_system_of=lambda _: kind) as log:
        with pytest.raises(LogOnNetwork, match=kind):
            await log.decide("sg-a", opening())
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads mountinfo")
def test_the_file_system_is_found_by_the_nearest_mount(tmp_path: Path) -> None:
    assert file_system_of(Path("/proc/self/saga.db")) == "proc"
    assert file_system_of(tmp_path / "not there yet" / "saga.db") not in NETWORK_FILE_SYSTEMS | {""}


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_closing_is_idempotent_and_leaves_one_plain_file(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        await log.aclose()
        await log.aclose()
        with pytest.raises(LogClosed):
            await log.load("sg-a")
    assert [file.name for file in path.parent.iterdir()] == ["saga.db"]
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    async with SqlSagaLog.open(copy) as log:
        assert (await log.load("sg-a")).seq == 1


async def test_what_was_handed_in_before_the_end_is_written(path: Path) -> None:
    async with SqlSagaLog.open(path) as log, anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(log.decide, f"sg-{number}", opening())
        await anyio.lowlevel.checkpoint()
        await log.aclose()
    async with SqlSagaLog.open(path) as log:
        assert len(await log.sagas("ops")) == 50


async def test_a_log_that_is_left_under_cancellation_closes_its_files(path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with SqlSagaLog.open(path) as log:
            await log.decide("sg-a", opening())
            scope.cancel()
    assert [file.name for file in path.parent.iterdir()] == ["saga.db"]


@pytest.mark.case(100)
def test_a_log_that_nobody_closed_does_not_keep_the_process(path: Path) -> None:
    script = f"""
import asyncio, sys
from pathlib import Path
from saga_mcp.log.sql import SqlSagaLog, connect
from saga_mcp.log.sql import log as log_module
from tests.log.decisions import opening
async def main():
    log = await SqlSagaLog.open(Path({str(path)!r})).__aenter__()
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
