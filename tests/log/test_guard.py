"""A tool that reads every file around it must not cost the log its locks (fcntl(2), "Record locks")."""

# ruff: noqa: ASYNC221, ASYNC240 - a test may block: its loop serves nobody else

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.log.decisions import intending, opening

from saga_mcp.log.owners import directory_of
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.log import claim_owner

READS: list[Callable[[Path], object]] = [
    Path.read_bytes,
    lambda path: os.open(path, os.O_RDONLY),
    lambda path: os.open(os.fsencode(path), os.O_RDONLY),
    lambda path: open(path, "rb"),  # noqa: PTH123, SIM115 - the ways in which tools open files
    lambda path: shutil.copy(path, path.with_name("copy")),
    lambda path: Path(os.path.relpath(path)).read_bytes(),
]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("read", READS)
async def test_a_tool_cannot_open_the_files_of_the_log(path: Path, read: Callable[[Path], object], suffix: str) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        with pytest.raises(PermissionError, match="outside of the folders"):
            read(Path(f"{path}{suffix}"))
        await log.decide("sg-a", intending())
    assert path.read_bytes()


def by_hard_link(path: Path) -> None:
    link = path.with_name("link")
    link.hardlink_to(path)
    link.read_bytes()


def by_symlink(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    link.read_bytes()


def within_its_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.close(os.open(path.name, os.O_RDONLY, dir_fd=folder))
    finally:
        os.close(folder)


def by_a_link_within_its_folder(path: Path) -> None:
    path.with_name("link").symlink_to(path.name)
    within_its_folder(path.with_name("link"))


def in_a_walk(path: Path) -> None:
    for _, _, files, folder in os.fwalk(path.parent.parent):
        if path.name in files:
            os.close(os.open(path.name, os.O_RDONLY, dir_fd=folder))


@pytest.mark.skipif(os.name != "posix", reason="links and open folders")
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("read", [by_hard_link, by_symlink, within_its_folder, by_a_link_within_its_folder, in_a_walk])
async def test_other_ways_to_the_same_file_are_seen(path: Path, read: Callable[[Path], object], suffix: str) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        with pytest.raises(PermissionError, match="outside of the folders"):
            read(Path(f"{path}{suffix}"))


@pytest.mark.skipif(os.name != "posix", reason="open folders")
async def test_a_walk_through_other_folders_is_nobodys_business(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the log lies in the current folder."""
    other = tmp_path / "elsewhere" / "notes"
    other.parent.mkdir()
    other.write_text("mine")
    monkeypatch.chdir(tmp_path)
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        within_its_folder(other)
        Path("elsewhere/notes").read_bytes()
        shutil.rmtree(other.parent)


async def test_a_file_of_the_same_name_elsewhere_is_nobodys_business(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / path.name
    other.parent.mkdir()
    other.write_text("mine")
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        assert other.read_text() == "mine"


async def test_a_tool_that_reads_the_owners_does_not_make_its_server_look_dead(path: Path) -> None:
    """Another process probes the lock after the tool has read whatever it could."""
    with claim_owner(path) as owners:
        for file in directory_of(path).iterdir():
            try:
                file.read_bytes()
            except PermissionError:
                continue
        probe = (
            "import sys; from pathlib import Path; from saga_mcp.log.owners import living; "
            "print([owner.id for owner in living(Path(sys.argv[1]))])"
        )
        done = subprocess.run(
            [sys.executable, "-c", probe, str(directory_of(path))],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        assert owners.me in done.stdout


async def test_sqlite_itself_may_open_the_log_again(path: Path) -> None:
    """It knows of its own locks."""
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT count(*) FROM saga").fetchone() == (1,)
        connection.close()
        await log.decide("sg-a", intending())
