"""Who is alive, where several machines share a log on a server (SEMANTICS.md S3.5, S10.4)."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.postgres.owner import owning, placed
from tests.postgres.server import PostgresServer, fresh, sql
from tests.world.server import eventually

from saga_mcp.domain.living import Life
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import Claim, Owners
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql.opened import open_owned
from saga_mcp.log.sql.postgres import owners as module
from saga_mcp.log.sql.postgres.living import lock_of


@asynccontextmanager
async def owner(place: ServerPlace, machine: Path) -> AsyncGenerator[Owners]:
    async with open_owned(placed(place.url, machine), Keyring()) as (_, owners):
        yield owners


async def is_seen(owners: Owners, other: str, life: Life) -> None:
    """Return once `other` is seen so."""
    with anyio.fail_after(30):
        while (await owners.look([other]))[other] is not life:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.02)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FREE_FOR_S", 0.3)
    monkeypatch.setattr(module, "_SEEN_FOR_S", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_a_killed_process_of_this_machine_is_proved_dead_at_once(
    server_place: ServerPlace, tmp_path: Path
) -> None:
    async with owner(server_place, tmp_path) as owners:
        with owning(server_place.url, tmp_path) as (child, theirs):
            assert await owners.look([theirs, owners.me]) == {theirs: Life.LIVES, owners.me: Life.LIVES}
            child.kill()
            child.wait()
            assert (await owners.look([theirs]))[theirs] is Life.DEAD


@pytest.mark.usefixtures("impatient")
async def test_the_death_of_a_process_of_another_machine_is_only_assumed(
    server_place: ServerPlace, tmp_path: Path
) -> None:
    async with owner(server_place, tmp_path / "here") as owners:
        with owning(server_place.url, tmp_path / "there") as (child, theirs):
            assert (await owners.look([theirs]))[theirs] is Life.LIVES
            child.kill()
            child.wait()
            await is_seen(owners, theirs, Life.UNSEEN)


async def test_a_lock_that_is_free_for_a_moment_proves_nothing(server_place: ServerPlace, tmp_path: Path) -> None:
    async with owner(server_place, tmp_path / "here") as owners, owner(server_place, tmp_path / "there") as other:
        for _ in range(3):
            sql(server_place.url, f"{END} {_key(other)}")
            assert other.standing is Claim.HELD
            assert (await owners.look([other.me]))[other.me] is Life.LIVES
            await eventually(lambda: str(_key(other)) in sql(server_place.url, KEYS))


async def test_a_process_that_ends_leaves_nothing_behind(server_place: ServerPlace, tmp_path: Path) -> None:
    async with owner(server_place, tmp_path):
        assert sql(server_place.url, "SELECT count(*), min(epoch) > 8 FROM saga_owner") == "1|t"
    assert sql(server_place.url, "SELECT count(*) FROM saga_owner") == "0"


@pytest.mark.slow
@pytest.mark.case(31)
@pytest.mark.usefixtures("impatient")
async def test_a_process_that_stands_still_loses_what_it_drives_and_not_what_it_runs(
    server_place: ServerPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE_S", 7.0)
    async with owner(server_place, tmp_path / "here") as owners:
        with owning(server_place.url, tmp_path / "there") as (child, theirs):
            assert (await owners.look([theirs]))[theirs] is Life.LIVES
            child.send_signal(signal.SIGSTOP)
            await is_seen(owners, theirs, Life.STALLED)
            child.send_signal(signal.SIGCONT)
            await is_seen(owners, theirs, Life.LIVES)


@pytest.mark.slow
async def test_a_restart_of_the_server_kills_nobody(own_server: PostgresServer, tmp_path: Path) -> None:
    with fresh(own_server) as name:
        place = own_server.place(name, tmp_path)
        async with owner(place, tmp_path / "here") as owners, owner(place, tmp_path / "there") as other:
            assert (await owners.look([other.me]))[other.me] is Life.LIVES
            await anyio.to_thread.run_sync(own_server.stop)
            await eventually(lambda: other.standing is Claim.AWAITED)
            assert "does not answer" in other.trouble
            await anyio.to_thread.run_sync(own_server.start)
            await eventually(lambda: other.standing is owners.standing is Claim.HELD)
            assert (await owners.look([other.me]))[other.me] is Life.LIVES
            assert other.trouble == ""


KEYS = "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted"
END = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
    "AND (classid::bigint << 32) | objid::bigint ="
)


def _key(owners: Owners) -> int:
    return lock_of(owners.me)
