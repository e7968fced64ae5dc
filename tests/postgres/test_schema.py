"""Creating and upgrading the schema in PostgreSQL, whoever starts at the same moment (SEMANTICS.md S10.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import asyncpg
import pytest
from tests.log.decisions import opening
from tests.log.kinds import opened_sql_log
from tests.postgres.owner import placed
from tests.postgres.server import PostgresServer, fresh, sql
from tests.world.server import eventually

from saga_mcp.domain.pausing import Pause
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql.opened import open_owned
from saga_mcp.log.sql.postgres.schema import MIGRATION_LOCK
from saga_mcp.log.sql.tables import EPOCH, metadata
from saga_mcp.log.sql.trouble import LogDamaged, LogInUseByOlder, LogNewer, LogTroubled, LogUpgraded


async def test_of_many_that_start_on_an_empty_database_one_makes_the_tables(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with fresh(postgres, empty=True) as name:
        place = postgres.place(name, tmp_path)

        async def start(number: int) -> None:
            async with opened_sql_log(place) as log:
                await log.decide(f"sg-{number}", opening())

        with anyio.fail_after(40):
            async with anyio.create_task_group() as tasks:
                for number in range(6):
                    tasks.start_soon(start, number)
        assert sql(place.url, "SELECT count(*) FROM saga") == "6"
        assert sql(place.url, "SELECT epoch FROM saga_log_meta") == str(EPOCH)


def test_the_migrations_make_the_tables_that_the_code_knows(server_place: ServerPlace) -> None:
    found = sql(
        server_place.url,
        "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'",
    ).splitlines()
    known = {f"{table.name}.{column.name}" for table in metadata.tables.values() for column in table.columns}
    assert {each for each in found if not each.startswith("saga_log_revision.")} == known
    indices = sql(server_place.url, "SELECT indexname FROM pg_indexes WHERE schemaname = 'public'").splitlines()
    named = {str(index.name) for table in metadata.tables.values() for index in table.indexes}
    assert {each for each in indices if not each.endswith("_pkey") and "revision" not in each} == named


async def test_an_older_schema_waits_for_an_older_process_that_lives(server_place: ServerPlace, tmp_path: Path) -> None:
    async with open_owned(placed(server_place.url, tmp_path), Keyring()) as (older, _):
        await older.sagas("ops")
        sql(server_place.url, "UPDATE saga_owner SET epoch = epoch - 1; UPDATE saga_log_meta SET epoch = epoch - 1")
        async with opened_sql_log(server_place) as newer:
            with pytest.raises(LogInUseByOlder, match=r"close the older saga-mcp \(pid \d+ on .*\): the saga log"):
                await newer.sagas("ops")
    assert sql(server_place.url, "SELECT epoch FROM saga_log_meta") == str(EPOCH - 1)


async def test_a_process_that_an_upgrade_overtook_writes_nothing_more(server_place: ServerPlace) -> None:
    async with opened_sql_log(server_place) as log:
        await log.decide("sg-a", opening())
        sql(server_place.url, "UPDATE saga_log_meta SET epoch = epoch + 1")
        with pytest.raises(LogUpgraded):
            await log.decide("sg-b", opening())
    async with opened_sql_log(server_place) as log:
        with pytest.raises(LogNewer, match="written by a newer saga-mcp"):
            await log.sagas("ops")
    assert sql(server_place.url, "SELECT count(*) FROM saga") == "1"


async def test_tables_of_another_program_are_left_alone(postgres: PostgresServer, tmp_path: Path) -> None:
    with fresh(postgres, empty=True) as name:
        place = postgres.place(name, tmp_path)
        sql(place.url, "CREATE TABLE saga_log_meta (mine int)")
        async with opened_sql_log(place) as log:
            with pytest.raises(LogDamaged, match="of another program"):
                await log.sagas("ops")
        assert sql(place.url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "1"


async def test_a_pause_holds_from_the_moment_that_it_is_stored_also_beside_a_batch_that_had_begun(
    server_place: ServerPlace,
) -> None:
    """A batch reads its state at its beginning; a pause waits for those that have begun."""
    stored: list[str] = []
    async with opened_sql_log(server_place) as log, session(server_place) as batch:
        await log.sagas("ops")
        await batch(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE saga_log_meta IN ROW SHARE MODE; "
            "SELECT pauses FROM saga_log_meta"
        )

        async def pause() -> None:
            await log.pause("ops", Pause(tool="t", by="ada", note="", at=0.0))
            stored.append(sql(server_place.url, "SELECT id FROM saga_log_key"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pause)
            await waited_for(server_place)
            assert stored == []
            await batch("INSERT INTO saga_log_key (id) VALUES ('batch'); COMMIT")
    assert stored == ["batch"]


async def test_an_upgrade_that_gets_no_answer_is_broken_off_and_says_so(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh(postgres, empty=True) as name:
        place = postgres.place(name, tmp_path)
        async with session(place) as other:
            monkeypatch.setattr("saga_mcp.log.sql.postgres.database._MIGRATES_WITHIN_S", 0.5)
            await other(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
            async with opened_sql_log(place) as log:
                with pytest.raises(LogTroubled, match="were not made or upgraded within 0 s, so that was broken off"):
                    await log.sagas("ops")
        assert sql(place.url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"
        monkeypatch.undo()
        async with opened_sql_log(place) as log:
            assert await log.sagas("ops") == []


@asynccontextmanager
async def session(place: ServerPlace) -> AsyncGenerator[Callable[[str], Awaitable[str]]]:
    """A session of somebody else: runs statements."""
    connection = await asyncpg.connect(place.url)
    try:
        yield connection.execute
    finally:
        await connection.close()


async def waited_for(place: ServerPlace) -> None:
    """Return once a session waits for another one's lock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'saga_log_meta'::regclass"
    await eventually(lambda: sql(place.url, waiting) == "1")
