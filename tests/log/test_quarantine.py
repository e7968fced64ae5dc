"""A saga that cannot be read is noted where lists see it, in every database that lasts (SEMANTICS.md S10.3)."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from tests.log.decisions import committing, opening
from tests.log.kinds import Database, opened_sql_log
from tests.postgres.server import sql
from tests.world.memory import MemoryDatabase

from saga_mcp.domain.errors import SagaQuarantined


def run(database: Path | str, statement: str) -> None:
    if isinstance(database, str):
        sql(database, statement)
        return
    with contextlib.closing(sqlite3.connect(database)) as raw, raw:
        raw.execute(statement)


async def test_one_that_ended_is_listed_as_quarantined_until_it_can_be_read(database: Database) -> None:
    if isinstance(database, MemoryDatabase):
        pytest.skip("nothing in it is ever damaged")
    raw = database if isinstance(database, Path) else database.url
    async with opened_sql_log(database) as log:
        for saga_id in ("sg-a", "sg-b"):
            await log.decide(saga_id, opening())
            await log.decide(saga_id, committing)
        run(raw, "UPDATE saga_event SET type = 'Imagined' WHERE saga_id = 'sg-a' AND seq = 2")
        with pytest.raises(SagaQuarantined):
            await log.load("sg-a")
        assert {row.id: row.state for row in await log.sagas("ops")} == {"sg-a": "quarantined", "sg-b": "committed"}
        assert [row.id for row in await log.sagas("ops", attention_only=True)] == ["sg-a"]
        assert [row.id for row in await log.sagas("ops", open_only=True)] == ["sg-a"]
        assert await log.busy_sagas("ops") == []
        run(raw, "UPDATE saga_event SET type = 'SagaCommitted' WHERE saga_id = 'sg-a' AND seq = 2")
        checked = await log.check("sg-a")
        assert checked is not None
        assert checked.as_written
        assert [row.state for row in await log.sagas("ops")] == ["committed", "committed"]
        assert await log.sagas("ops", open_only=True) == []
