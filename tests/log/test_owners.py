"""Who is alive, as the operating system knows it (SEMANTICS.md S3.5, S10.4)."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.log.owning import CLAIMING, process

from saga_mcp.log.owners import FileOwners, directory_of, living
from saga_mcp.log.sql import claim_owner
from saga_mcp.log.sql.tables import EPOCH
from saga_mcp.log.sql.trouble import LogReadOnly

FORKING = """
import os, sys, time
from pathlib import Path
from saga_mcp.log.owners import FileOwners
with FileOwners.claim(Path(sys.argv[1]), epoch=7) as owners:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print(owners.me, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return directory_of(tmp_path / "saga.db")


def test_every_process_start_is_an_owner_of_its_own(directory: Path) -> None:
    with FileOwners.claim(directory, epoch=1) as one, FileOwners.claim(directory, epoch=1) as two:
        assert one.me != two.me
        assert one.alive(two.me)
        assert two.alive(one.me)
        assert one.alive(one.me)


def test_a_process_is_alive_until_it_is_killed(directory: Path) -> None:
    with FileOwners.claim(directory, epoch=1) as owners, process(directory) as (child, theirs):
        assert owners.alive(theirs)
        assert [(owner.id, owner.pid, owner.epoch) for owner in living(directory)] == [(theirs, child.pid, 7)]
        child.kill()
        child.wait()
        assert not owners.alive(theirs)
        assert living(directory) == []


async def test_whether_others_serve_a_realm_is_seen_by_their_locks(directory: Path) -> None:
    serving = CLAIMING.replace("epoch=7", 'epoch=7, serves="ops"')
    with FileOwners.claim(directory, epoch=1, serves="ops") as owners:
        assert not await owners.others_serve("ops")
        with process(directory, serving) as (child, _):
            assert await owners.others_serve("ops")
            assert not await owners.others_serve("another")
            child.kill()
            child.wait()
            assert not await owners.others_serve("ops")


LOCKING = """
import fcntl, sys
with open(sys.argv[1], "x") as mark:
    fcntl.lockf(mark, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no keepers")
def test_a_killed_process_is_not_proved_dead_while_a_keeper_has_its_mark(directory: Path) -> None:
    with FileOwners.claim(directory, epoch=1) as owners, process(directory) as (child, theirs):
        mark = directory / f"{theirs}.1.kept"
        command = [sys.executable, "-c", LOCKING, str(mark)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
            assert keeper.stdout is not None
            assert keeper.stdout.readline()
            child.kill()
            child.wait()
            assert owners.alive(theirs)
            with FileOwners.claim(directory, epoch=1):
                assert mark.exists()
            keeper.kill()
        assert not owners.alive(theirs)
        with FileOwners.claim(directory, epoch=1):
            assert not mark.exists()


def test_probing_others_never_drops_the_own_lock(directory: Path) -> None:
    """Closing any descriptor of a file drops a process's record locks on it."""
    with FileOwners.claim(directory, epoch=1) as owners:
        probe = (
            "import sys; from pathlib import Path; from saga_mcp.log.owners import FileOwners\n"
            "with FileOwners.claim(Path(sys.argv[1]), epoch=1) as o: sys.exit(0 if o.alive(sys.argv[2]) else 3)"
        )
        for _ in range(3):
            owners.alive(owners.me)
            living(directory)
            subprocess.run([sys.executable, "-c", probe, str(directory), owners.me], check=True, timeout=30)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_what_a_dead_process_forked_does_not_keep_it_alive(directory: Path) -> None:
    """`flock` would: measured, and the reason for `lockf`."""
    with FileOwners.claim(directory, epoch=1) as owners, process(directory, FORKING) as (child, theirs):
        assert owners.alive(theirs)
        child.kill()
        child.wait()
        assert not owners.alive(theirs)


def test_the_dead_are_cleared_away_and_the_living_are_not(directory: Path) -> None:
    with process(directory) as (_, alive):
        with process(directory) as (child, dead):
            child.kill()
            child.wait()
            assert (directory / f"{dead}.lock").exists()
        with FileOwners.claim(directory, epoch=1) as owners:
            files = {path.stem for path in directory.glob("*.lock")}
            assert files == {alive, owners.me}


def test_an_owner_that_left_is_dead_and_leaves_no_file(directory: Path) -> None:
    with FileOwners.claim(directory, epoch=1) as owners:
        with FileOwners.claim(directory, epoch=1) as gone:
            pass
        assert not owners.alive(gone.me)
        assert {path.stem for path in directory.glob("*.lock")} == {owners.me}


def test_a_removed_file_means_death_also_to_its_owner(directory: Path) -> None:
    with FileOwners.claim(directory, epoch=1) as owners:
        (directory / f"{owners.me}.lock").unlink()
        assert not owners.alive(owners.me)


@pytest.mark.parametrize("name", ["", "../saga", "own-1/..", "own-0000000000000000"])
def test_a_name_that_no_owner_has_is_dead(directory: Path, name: str) -> None:
    with FileOwners.claim(directory, epoch=1) as owners:
        assert not owners.alive(name)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_only_this_user_may_read_the_owners(directory: Path) -> None:
    with FileOwners.claim(directory, epoch=1) as owners:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / f"{owners.me}.lock").stat().st_mode) == 0o600


def test_an_owner_of_a_database_says_which_schema_it_writes(tmp_path: Path) -> None:
    claiming = """
import sys
from pathlib import Path
from saga_mcp.log.sql import claim_owner
with claim_owner(Path(sys.argv[1]), make_parent=True) as owners:
    print(owners.me, flush=True)
    sys.stdin.read()
"""
    database = tmp_path / "new" / "saga.db"
    with process(database, claiming) as (_, theirs):
        assert [(owner.id, owner.epoch) for owner in living(directory_of(database))] == [(theirs, EPOCH)]


def test_an_owner_that_does_not_describe_itself_is_alive_all_the_same(directory: Path) -> None:
    silent = CLAIMING.replace("    print(", "    import os; os.ftruncate(owners._descriptor, 0)\n    print(")
    with FileOwners.claim(directory, epoch=1) as owners, process(directory, silent) as (_, theirs):
        assert owners.alive(theirs)
        assert living(directory) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_a_forked_child_that_leaves_takes_no_file_with_it(directory: Path) -> None:
    leaving = (
        CLAIMING.replace("    print(", "    if __import__('os').fork() == 0: sys.exit(0)\n    print(")
        .replace("import sys", "import os, sys")
        .replace("print(owners.me", "os.wait(); print(owners.me")
    )
    with FileOwners.claim(directory, epoch=1) as owners, process(directory, leaving) as (_, theirs):
        assert owners.alive(theirs)


def test_an_owner_can_be_claimed_beside_a_database_that_is_yet_to_come(tmp_path: Path) -> None:
    with claim_owner(tmp_path / "new/saga.db", make_parent=True) as owners:
        assert owners.alive(owners.me)


def test_where_no_owner_can_be_claimed_the_place_is_named(tmp_path: Path) -> None:
    database = tmp_path / "not mounted" / "saga.db"
    with pytest.raises(LogReadOnly, match="not mounted"), claim_owner(database):
        pass


def test_processes_that_know_the_database_by_different_names_see_each_other(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "real", target_is_directory=True)
    (tmp_path / "file.db").symlink_to(tmp_path / "real" / "saga.db")
    names = (tmp_path / "real" / "saga.db", tmp_path / "folder" / "saga.db", tmp_path / "file.db")
    with claim_owner(names[0]) as real, claim_owner(names[1]) as by_folder, claim_owner(names[2]) as by_file:
        everybody = (real, by_folder, by_file)
        assert all(one.alive(other.me) for one in everybody for other in everybody)
