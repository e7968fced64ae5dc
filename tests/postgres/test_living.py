"""Who is alive, where several machines share a log on a server (SEMANTICS.md S3.5, S10.4)."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.log.decisions import opening
from tests.postgres.owner import owning, placed
from tests.postgres.server import PostgresServer, fresh, sql
from tests.world.server import eventually

from saga_mcp.domain.living import Life
from saga_mcp.log.owners import place_of
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import Claim, Owners
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql.log import claim_owner
from saga_mcp.log.sql.opened import open_owned
from saga_mcp.log.sql.postgres import owners as module
from saga_mcp.log.sql.postgres import session as session_module
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


async def test_whether_others_serve_a_realm_is_seen_by_their_locks(server_place: ServerPlace, tmp_path: Path) -> None:
    async with owner(server_place, tmp_path / "here") as owners:
        assert not await owners.others_serve("ops")
        with owning(server_place.url, tmp_path / "there") as (child, _):
            assert await owners.others_serve("ops")
            assert not await owners.others_serve("another")
            child.kill()
            child.wait()
            with anyio.fail_after(30):
                while await owners.others_serve("ops"):  # noqa: ASYNC110 - the server notices it by itself
                    await anyio.sleep(0.02)


@pytest.mark.usefixtures("impatient")
async def test_a_killed_process_of_this_machine_is_proved_dead_at_once(
    server_place: ServerPlace, tmp_path: Path
) -> None:
    async with owner(server_place, tmp_path) as owners:
        with owning(server_place.url, tmp_path) as (child, theirs):
            assert await owners.look([theirs, owners.me]) == {theirs: Life.LIVES, owners.me: Life.LIVES}
            child.kill()
            child.wait()
            await is_seen(owners, theirs, Life.DEAD)


@pytest.mark.usefixtures("impatient")
async def test_a_process_that_ended_in_order_with_a_saga_open_is_proved_dead_too(
    server_place: ServerPlace, tmp_path: Path
) -> None:
    """It may have left a call or a reply behind: what was of a killed one is told from its row, and so is this."""
    async with open_owned(placed(server_place.url, tmp_path), Keyring()) as (log, owners):
        with owning(server_place.url, tmp_path) as (child, theirs):
            await log.decide("sg-a", opening())
            assert (await owners.look([theirs]))[theirs] is Life.LIVES
            assert child.stdin is not None
            child.stdin.close()
            assert child.wait(10) == 0
            await is_seen(owners, theirs, Life.DEAD)


@pytest.mark.usefixtures("impatient")
async def test_a_lock_that_is_held_proves_more_than_a_file_that_is_missing(
    server_place: ServerPlace, tmp_path: Path
) -> None:
    """As with a copy of a virtual machine under the same name: its files are of the same place, and not here."""
    shutil.copytree(_made(tmp_path / "one"), tmp_path / "two", dirs_exist_ok=True)
    async with owner(server_place, tmp_path / "one") as owners, owner(server_place, tmp_path / "two") as other:
        assert sql(server_place.url, "SELECT count(DISTINCT place), count(*) FROM saga_owner") == "1|2"
        assert (await owners.look([other.me]))[other.me] is Life.LIVES


def _made(machine: Path) -> Path:
    """The folder of a machine that has had an owner."""
    machine.mkdir()
    with claim_owner(machine / "log"):
        place_of(machine / "log")
    return machine


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


class _Time:
    """The module's clock, which a test may let pass."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.passed_s

    def time(self) -> float:
        return time.time() + self.passed_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Time:
    clock = _Time()
    monkeypatch.setattr(module, "time", clock)
    return clock


async def test_the_second_moment_without_a_lock_has_its_own_grace(
    server_place: ServerPlace, tmp_path: Path, clock: _Time
) -> None:
    async with owner(server_place, tmp_path / "here") as owners, owner(server_place, tmp_path / "there") as other:
        beats = "SELECT sum(beats) FROM saga_owner"
        for _ in range(2):
            before = int(sql(server_place.url, beats))
            with _away(other):
                sql(server_place.url, f"{END} {_key(other)}")
                await eventually(lambda: str(_key(other)) not in sql(server_place.url, KEYS))
                assert (await owners.look([other.me]))[other.me] is Life.LIVES
            # Nobody looks while it has its lock again.
            await eventually(partial(_more, server_place, beats, before))
            clock.passed_s += 86400


async def test_who_has_lost_its_own_connection_too_gives_the_others_time(
    server_place: ServerPlace, tmp_path: Path, clock: _Time
) -> None:
    """A backend that crashes ends the sessions of all, and the server goes on as the same."""
    async with owner(server_place, tmp_path / "here") as owners, owner(server_place, tmp_path / "there") as other:
        with _away(other):
            sql(server_place.url, f"{END} {_key(other)}")
            sql(server_place.url, f"{END} {_key(owners)}")
            await eventually(lambda: _keys(server_place) == {str(_key(owners))})
            assert (await owners.look([other.me]))[other.me] is Life.LIVES
            clock.passed_s += module.ALL_LOST_FOR_S - 2
            assert (await owners.look([other.me]))[other.me] is Life.LIVES
            clock.passed_s += 2
            assert (await owners.look([other.me]))[other.me] is Life.UNSEEN


async def test_the_row_of_an_old_process_that_comes_back_is_not_cleared_away(
    server_place: ServerPlace, tmp_path: Path, clock: _Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a service were started more than a week ago, and lose their connections at once."""
    monkeypatch.setattr(session_module, "PROBE_EVERY_S", 0.02)
    clock.passed_s = -8 * 86400.0
    async with (
        owner(server_place, tmp_path / "one") as one,
        owner(server_place, tmp_path / "two") as two,
        owner(server_place, tmp_path / "three") as three,
    ):
        clock.passed_s = 0.0
        with _away(three):
            with _away(two):
                for each in (one, two, three):
                    sql(server_place.url, f"{END} {_key(each)}")
                await eventually(lambda: _keys(server_place) == {str(_key(one))})
                assert (await one.look([two.me]))[two.me] is Life.LIVES
            await eventually(lambda: str(_key(two)) in _keys(server_place))
            rows = "SELECT count(*) FROM saga_owner"
            assert sql(server_place.url, rows) == "3"
            clock.passed_s = 3600.0  # and one that shows no sign of life for long is
            await eventually(lambda: sql(server_place.url, rows) == "2")
            assert (await two.look([three.me]))[three.me] is Life.UNSEEN


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


@contextmanager
def _away(owners: Owners) -> Generator[None]:
    """Let a process make no new connection that lasts, until the block ends."""
    assert isinstance(owners, module.ServerOwners)
    server = owners._session._server  # pyright: ignore[reportPrivateUsage]  # the network, as far as this one goes

    async def refuse() -> None:
        raise ConnectionRefusedError

    connect, server.connect_raw = server.connect_raw, refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        server.connect_raw = connect  # type: ignore[method-assign]


def _more(place: ServerPlace, query: str, than: int) -> bool:
    return int(sql(place.url, query)) > than


def _keys(place: ServerPlace) -> set[str]:
    return set(sql(place.url, KEYS).splitlines())


def _key(owners: Owners) -> int:
    return lock_of(owners.me)
