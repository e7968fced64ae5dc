"""What is held and locked stands in the log by names that nobody can guess from (SEMANTICS.md S11.4)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.log.decisions import committing, opening
from tests.log.owning import process
from tests.log.test_holds import holding

from saga_mcp.domain.errors import ResourceHeld
from saga_mcp.domain.holding import Holder
from saga_mcp.log.owners import directory_of
from saga_mcp.log.port import StepLock
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.trouble import LogInUseByOlder

EPOCH_8 = Path(__file__).parents[1] / "golden" / "epoch8.sql"
"""A log of the last version that kept plain digests: a saga holds "room 12", and one of its steps has a lock on it."""
ROOM = "room 12"
OLDER = """
import sys
from pathlib import Path
from saga_mcp.log.owners import FileOwners
with FileOwners.claim(Path(sys.argv[1]), epoch=8) as owners:
    print(owners.me, flush=True)
    sys.stdin.read()
"""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def lock(token: str) -> StepLock:
    """As the engine asks for one: by a digest of what it works on."""
    return StepLock(realm="ops", name=digest(json.dumps(ROOM)), saga_id="sg-new", owner="own-2", token=token)


def names(path: Path) -> Sequence[str]:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        rows = raw.execute("SELECT name FROM saga_hold UNION ALL SELECT name FROM saga_step_lock").fetchall()
    return [name for (name,) in rows]


def guesses() -> set[str]:
    """What somebody who has the file would try."""
    return {digest(ROOM), digest(json.dumps(ROOM)), digest(digest(ROOM)), digest(digest(json.dumps(ROOM)))}


async def test_who_has_the_rows_cannot_try_out_what_is_held(tmp_path: Path) -> None:
    path = tmp_path / "saga.db"
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-new", opening())
        await log.decide("sg-new", holding(ROOM))
        taken = await log.take_lock(lock("t"))
        assert taken == lock("t")
        assert len(names(path)) == 2
        assert not guesses() & {*names(path)}
        assert await log.take_lock(lock("u")) == taken
        await log.drop_lock(taken)
        assert await log.take_lock(lock("u")) == lock("u")


async def test_two_logs_have_different_names_for_one_thing(tmp_path: Path) -> None:
    for name in ("one.db", "two.db"):
        async with SqlSagaLog.open(tmp_path / name) as log:
            await log.decide("sg-new", opening())
            await log.decide("sg-new", holding(ROOM))
    assert names(tmp_path / "one.db") != names(tmp_path / "two.db")


async def test_what_an_older_version_held_and_locked_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "saga.db"
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.executescript(EPOCH_8.read_text(encoding="utf-8"))
    assert {*names(path)} == {digest(ROOM), digest(json.dumps(ROOM))}
    async with SqlSagaLog.open(path) as log:
        with process(directory_of(path), OLDER) as (child, _):
            with pytest.raises(LogInUseByOlder, match=f"pid {child.pid}"):
                await log.holder("ops", ROOM)
            assert {*names(path)} == {digest(ROOM), digest(json.dumps(ROOM))}
            child.kill()
            child.wait(10)
        assert await log.holder("ops", ROOM) == Holder("sg-holds", waits=False)
        assert not guesses() & {*names(path)}
        await log.decide("sg-new", opening())
        with pytest.raises(ResourceHeld, match="saga sg-holds holds"):
            await log.decide("sg-new", holding(ROOM))
        held = await log.take_lock(lock("u"))
        assert (held.saga_id, held.token) == ("sg-holds", "t1")
        await log.drop_lock(held)
        await log.decide("sg-holds", committing)
        assert names(path) == []
        await log.decide("sg-new", holding(ROOM))
