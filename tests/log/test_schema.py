"""Creating and migrating the schema (SEMANTICS.md S10.3, CASES C97)."""

# ruff: noqa: ASYNC221 - a test may block: its loop serves nobody else

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, text
from tests.log.decisions import committing, opening
from tests.log.owning import process

from saga_mcp.domain.values import Phase
from saga_mcp.log.owners import directory_of
from saga_mcp.log.sql import SqlSagaLog, migrations
from saga_mcp.log.sql.connect import SqliteFile
from saga_mcp.log.sql.indices import with_indices
from saga_mcp.log.sql.tables import EPOCH
from saga_mcp.log.sql.trouble import LogInUseByOlder, LogTroubled

ROOT = Path(__file__).parents[2]
EPOCH_3 = ROOT / "tests" / "golden" / "epoch3.sql"
"""A log as the last version before the chain left it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "saga.db"


@pytest.fixture
async def older(path: Path) -> Path:
    """A log with one saga, as an older version left it."""
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE saga_log_meta SET epoch=?", (EPOCH - 1,))
    return path


@pytest.fixture
def upgrades(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for the revisions between the older version and today's; counts how often they ran."""
    ran: list[str] = []

    def upgrade(connection: Connection) -> None:
        ran.append(threading.current_thread().name)
        connection.execute(text("UPDATE saga_log_meta SET epoch=:epoch"), {"epoch": EPOCH})

    monkeypatch.setattr(migrations, "upgrade", upgrade)
    return ran


@contextlib.contextmanager
def schema_of(path: Path) -> Generator[Connection]:
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


async def test_the_migrations_make_the_tables_that_the_code_uses(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.sagas("ops")
    with schema_of(path) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "saga_log_revision"})
        assert compare_metadata(context, with_indices()) == []
        assert connection.execute(text("PRAGMA application_id")).scalar() == int.from_bytes(b"SAGA", "big")


async def test_what_is_open_is_found_without_looking_at_what_is_finished(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.sagas("ops")
    with schema_of(path) as connection:
        for condition, index in (("busy", "saga_busy"), ("open", "saga_open"), ("items > 0", "saga_waiting")):
            plan = connection.execute(
                text(f"EXPLAIN QUERY PLAN SELECT * FROM saga WHERE realm='r' AND {condition} ORDER BY opened_at")  # noqa: S608
            ).all()
            assert index in str(plan)
            assert "TEMP B-TREE" not in str(plan)
        plan = connection.execute(
            text("EXPLAIN QUERY PLAN SELECT id FROM saga WHERE realm='r' AND caller='c' AND key='k' AND key <> ''")
        ).all()
        assert "saga_key" in str(plan)


@pytest.mark.case(97)
async def test_an_older_log_is_backed_up_and_migrated(path: Path, older: Path, upgrades: list[str]) -> None:
    async with SqlSagaLog.open(path) as log:
        assert (await log.decide("sg-a", committing)).saga.seq == 2
    assert len(upgrades) == 1
    (backup,) = older.parent.glob(f"saga.db.backup-{EPOCH - 1}-*")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600 or os.name == "nt"
    with contextlib.closing(sqlite3.connect(backup)) as raw:
        assert raw.execute("SELECT epoch, (SELECT seq FROM saga) FROM saga_log_meta").fetchone() == (EPOCH - 1, 1)


@pytest.mark.usefixtures("older")
async def test_two_that_start_at_once_migrate_once(path: Path, upgrades: list[str]) -> None:
    together = threading.Barrier(4)
    failed: list[BaseException] = []

    def start() -> None:
        file = SqliteFile(path=path, make_parent=False, file_system_of=lambda _: "")
        together.wait()
        try:
            file.writer().close()
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    assert len(upgrades) == 1


async def test_a_migration_waits_for_the_older_process_to_close(path: Path, older: Path, upgrades: list[str]) -> None:
    claiming = """
import sys
from pathlib import Path
from saga_mcp.log.owners import FileOwners
with FileOwners.claim(Path(sys.argv[1]), epoch=0) as owners:
    print(owners.me, flush=True)
    sys.stdin.read()
"""
    async with SqlSagaLog.open(path) as log:
        with process(directory_of(older), claiming) as (child, _):
            with pytest.raises(LogInUseByOlder, match=f"pid {child.pid}"):
                await log.load("sg-a")
            child.kill()
            child.wait()
        assert upgrades == []
        assert (await log.load("sg-a")).seq == 1


async def test_a_migration_that_falls_short_changes_nothing(
    path: Path, older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE half_done (id)"))

    monkeypatch.setattr(migrations, "upgrade", half)
    async with SqlSagaLog.open(path) as log:
        with pytest.raises(LogTroubled, match="did not reach"):
            await log.load("sg-a")
    with contextlib.closing(sqlite3.connect(older)) as raw:
        assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name='half_done'").fetchone() == (0,)


async def test_a_start_on_a_current_log_loads_neither_alembic_nor_the_async_engine(path: Path) -> None:
    """DESIGN.md section 8: start-up time."""
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
    script = f"""
import asyncio, json, sys
from pathlib import Path
from saga_mcp.log.sql import SqlSagaLog
async def main():
    async with SqlSagaLog.open(Path({str(path)!r})) as log:
        await log.load("sg-a")
asyncio.run(main())
print(json.dumps(sorted(name for name in sys.modules if name in {{"alembic", "sqlalchemy.ext.asyncio",
"sqlalchemy.orm"}})))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=30, cwd=ROOT)
    assert json.loads(done.stdout) == []


async def test_a_log_without_a_chain_is_read_goes_on_and_is_not_said_to_be_checked(path: Path) -> None:
    """A log of epoch 3, as the version that wrote it left it."""
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.executescript(EPOCH_3.read_text(encoding="utf-8"))
    async with SqlSagaLog.open(path) as log:
        saga = await log.load("sg-old")
        assert (saga.phase, saga.steps[0].plan.args, saga.steps[0].result) == (
            Phase.ACTIVE,
            {"card": "4111"},
            {"id": 7},
        )
        await log.decide("sg-old", committing)
        await log.decide("sg-new", opening())
        old, new = await log.check("sg-old"), await log.check("sg-new")
        assert old is not None
        assert new is not None
        assert (old.broken, old.events, old.uncovered) == (None, 4, 3)
        assert (new.broken, new.events, new.uncovered) == (None, 1, 0)
        over = await log.check("sg-over")
        assert over is not None
        assert (over.broken, over.uncovered, over.head) == (None, 2, "")
        with contextlib.closing(sqlite3.connect(path)) as raw, raw:
            ended = dict(raw.execute("SELECT id, ended_at FROM saga WHERE id <> 'sg-old'"))
            assert ended == {"sg-over": 19.5, "sg-new": None}
            # What it had no link for is not vouched for; what has one is, also where it follows such an event.
            raw.execute("UPDATE saga_event SET facts = replace(facts, 'agent', 'nobody') WHERE seq = 4")
        changed = await log.check("sg-old")
        assert changed is not None
        assert changed.broken is not None
        assert changed.broken.seq == 4
