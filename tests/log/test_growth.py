"""Nothing that a server asks again and again grows with the sagas that have ended (DESIGN.md section 8).

100,000 finished and 10,000 open sagas, of which a hundred have something due.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio
import pytest
from sqlalchemy import Connection
from tests.log.decisions import intending, looking, opening
from tests.log.kinds import opened_sql_log
from tests.postgres.server import sql

from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import StepLock
from saga_mcp.log.sql import SqlSagaLog

FINISHED: Final = 100_000
OPEN: Final = 10_000
DUE: Final = 100

_COLUMNS = (
    "id, realm, caller, conversation, key, purpose, phase, state, driver, busy, open, items, steps, seq, opened_at, "
    "updated_at, idle_from_s, ended_at"
)
_FINISHED = (
    f"INSERT INTO saga ({_COLUMNS}) SELECT 'sg-f' || n, 'ops', 'ada', 'c' || n, '', '', 'committed', 'committed', "  # noqa: S608 - a test
    f"'own-1', {{no}}, {{no}}, 0, 1, 2, n, n, NULL, n FROM {{numbers}}"
)
_OPEN = (
    f"INSERT INTO saga ({_COLUMNS}) SELECT 'sg-o' || n, 'ops', 'ada', 'c' || n, '', '', 'active', 'active', 'own-1', "  # noqa: S608 - a test
    f"n <= {DUE}, {{yes}}, CASE WHEN n <= {DUE} THEN 1 ELSE 0 END, 1, 2, n, n, n, NULL FROM {{numbers}}"
)
_EVENTS = (
    "INSERT INTO saga_event (saga_id, seq, type, version, at, batch_id, facts) "
    "SELECT id, n, 'SagaOpened', 1, 0, 'b', '{{}}' FROM saga CROSS JOIN {numbers}"
)


async def asked_again_and_again(log: SqlSagaLog) -> None:
    """What servers ask on and on, and what calls do."""
    await log.busy_sagas("ops")
    await log.idle_sagas("ops", for_s=3600)
    await log.sagas("ops", limit=50)
    await log.sagas("ops", caller="ada", open_only=True, limit=100)
    await log.sagas("ops", caller="ada", conversation="c7", open_only=True, limit=100)
    await log.sagas("ops", attention_only=True, limit=100)
    await log.saga_of_key("ops", "ada", "k")
    await log.paused("ops")
    await log.observe("ops", 0.0, 1.0)
    await log.holder("ops", "customer:7")
    await log.take_lock(StepLock(realm="ops", name="n", saga_id="sg-new", owner="own-1", token="t"))  # noqa: S106 - a name
    await log.outbox.due("ops", time.time(), limit=64)
    await log.realms()
    await log.decide("sg-new", opening(key="k"))
    await log.decide("sg-new", intending())
    await log.decide("sg-new", looking)
    await log.load("sg-new")
    await log.history("sg-new")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_in_postgresql_no_more_rows_are_read_than_are_open(server_place: ServerPlace) -> None:
    """By the server's own count of what it read, which is known once the sessions have ended."""
    for text, many in ((_FINISHED, FINISHED), (_OPEN, OPEN)):
        sql(server_place.url, text.format(yes="true", no="false", numbers=f"generate_series(1, {many}) AS n"))
    sql(server_place.url, _EVENTS.format(numbers="generate_series(1, 2) AS n"))
    sql(server_place.url, "ANALYZE")
    before = _rows_read(server_place)
    async with opened_sql_log(server_place) as log:
        await asked_again_and_again(log)
    with anyio.fail_after(30):
        while (read := _rows_read(server_place) - before) == 0:  # noqa: ASYNC110 - sessions tell when they end
            await anyio.sleep(0.2)
    assert read < 4 * OPEN


def _rows_read(place: ServerPlace) -> int:
    text = (
        "SELECT sum(coalesce(seq_tup_read, 0)) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes) "
        "FROM pg_stat_user_tables"
    )
    return int(sql(place.url, text))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_in_sqlite_every_statement_finds_its_rows_by_an_index(tmp_path: Path) -> None:
    path = tmp_path / "saga.db"
    async with opened_sql_log(path) as log:
        await log.sagas("ops")
    with closing(sqlite3.connect(path)) as raw, raw:
        for text, many in ((_FINISHED, FINISHED), (_OPEN, OPEN)):
            raw.execute(text.format(yes="1", no="0", numbers=_numbers(many)))
        raw.execute(_EVENTS.format(numbers=_numbers(2)))
        raw.execute("ANALYZE")
    said: list[str] = []

    def listen(connection: Connection) -> None:
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.set_trace_callback(said.append)

    async with opened_sql_log(path) as log:
        await log.read(listen)
        await log._writer.aside(listen)  # pyright: ignore[reportPrivateUsage]  # what it writes is asked for too
        await asked_again_and_again(log)
    with closing(sqlite3.connect(path)) as raw:
        statements = [each for each in said if each.startswith(("SELECT", "UPDATE", "INSERT", "DELETE"))]
        assert len(statements) > 15
        for statement in statements:
            for *_, detail in raw.execute(f"EXPLAIN QUERY PLAN {statement}"):
                whole = detail.startswith("SCAN saga") and "INDEX" not in detail
                assert not whole or detail in SMALL, (statement, detail)


SMALL = {f"SCAN saga_{name}" for name in ("log_meta", "log_key", "pause", "driver")}
"""Tables of a few rows, however many sagas there are."""


def _numbers(many: int) -> str:
    return f"(WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {many}) SELECT n FROM up)"  # noqa: S608 - a test
