"""The files beside the database are moved or deleted under a living log: nothing is stored beside what others read.

SQLite goes on with files that it has open, whether or not anybody else can find them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.log.decisions import intending, opening, succeeding

from saga_mcp.log.guard import ours
from saga_mcp.log.sql import SqlSagaLog, files
from saga_mcp.log.sql.connect import SqliteFile
from saga_mcp.log.sql.hot import execute
from saga_mcp.log.sql.trouble import LogGone

BESIDE = ("-wal", "-shm")

WRITES = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from saga_mcp.log.sql import SqlSagaLog, files
from tests.log.decisions import opening

async def main():
    async with SqlSagaLog.open(Path(sys.argv[1])) as log:
        await log.decide("sg-other", opening())

asyncio.run(main())
"""


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def moved(file: Path) -> None:
    file.rename(f"{file}.moved")


def replaced(file: Path) -> None:
    """Another file of the same content lies there, as after a restore from a backup."""
    with ours():  # somebody's doing, in another process
        shutil.copy(file, f"{file}.new")
    Path(f"{file}.new").replace(file)


@pytest.mark.parametrize("lost", [("-wal",), ("-shm",), BESIDE])
@pytest.mark.parametrize("lose", [Path.unlink, moved, replaced])
async def test_a_log_whose_side_files_changed_stores_and_tells_nothing_more(
    path: Path, lost: tuple[str, ...], lose: Callable[[Path], object]
) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        for suffix in lost:
            lose(beside(path, suffix))
        for _ in range(2):  # a new connection would begin new files
            with pytest.raises(LogGone, match=r"nothing was stored and nothing was sent.*start again"):
                await log.decide("sg-a", intending())
            with pytest.raises(LogGone, match="start again"):
                await log.load("sg-a")


async def test_between_intent_and_outcome_too(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        await log.decide("sg-a", intending())
        beside(path, "-shm").unlink()
        with pytest.raises(LogGone):
            await log.decide("sg-a", succeeding())


@pytest.mark.parametrize("lost", [("-wal",), ("-shm",), BESIDE])
async def test_what_was_only_in_a_deleted_file_is_there_after_a_restart(path: Path, lost: tuple[str, ...]) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        await log.decide("sg-a", intending())
        for suffix in lost:
            beside(path, suffix).unlink()
        with pytest.raises(LogGone):
            await log.decide("sg-a", succeeding())
    async with SqlSagaLog.open(path) as log:
        assert (await log.load("sg-a")).seq == 2


async def test_what_another_process_wrote_meanwhile_is_not_overwritten(path: Path) -> None:
    """It found no side files, so it knows nothing of what is only in the deleted ones."""
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", intending())
        for suffix in BESIDE:
            beside(path, suffix).unlink()
        subprocess.run([sys.executable, "-c", WRITES, path], check=True, timeout=30)  # noqa: ASYNC221 - as above
        with pytest.raises(LogGone):
            await log.load("sg-other")
    async with SqlSagaLog.open(path) as log:
        assert (await log.load("sg-other")).seq == 1
        assert (await log.load("sg-a")).seq == 1


async def test_side_files_that_a_process_itself_removed_may_be_new_ones(path: Path) -> None:
    """The last connection that is closed removes them."""
    for number in range(1, 3):
        async with SqlSagaLog.open(path) as log:
            await log.decide("sg-a", opening() if number == 1 else intending())
            assert (await log.load("sg-a")).seq == number
        assert not any(beside(path, suffix).exists() for suffix in BESIDE)


def test_connections_of_several_threads_that_come_and_go_do_not_lose_each_others_files(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks whether the files still lie there while the last other one ends and removes them."""
    file = SqliteFile(path=path, make_parent=False, file_system_of=lambda _: "")
    file.reader().close()
    looks = files.sides

    def slowly(path: Path) -> files.Sides:
        found = looks(path)
        os.sched_yield()
        return found

    monkeypatch.setattr(files, "sides", slowly)

    def use() -> None:
        for _ in range(50):
            with file.reader() as connection, connection.begin():
                execute(connection, "SELECT 1")

    with ThreadPoolExecutor(4) as threads:
        for used in [threads.submit(use) for _ in range(4)]:
            used.result(timeout=60)
