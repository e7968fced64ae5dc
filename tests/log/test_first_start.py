"""Two processes that start together on a database that is not there yet (CASES C27: normal on the main client)."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection
from tests.log.decisions import opening

from saga_mcp.log.sql import SqlSagaLog, schema


async def test_tables_that_another_process_makes_meanwhile_are_not_taken_for_a_foreign_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look finds no tables, the next one those of a saga log: both must see the same moment."""
    path = tmp_path / "saga.db"
    # The other process has got as far as the write-ahead log; before that, nobody can write while somebody looks.
    with contextlib.closing(sqlite3.connect(tmp_path / "saga.db")) as other:
        other.execute("PRAGMA journal_mode=wal")
    made: list[str] = []
    look = schema._require_empty  # pyright: ignore[reportPrivateUsage]  # the moment between two looks

    def the_other_is_faster(connection: Connection, path: Path) -> None:
        if not made:
            made.append("by the other process")
            _make(path)
        look(connection, path)

    monkeypatch.setattr(schema, "_require_empty", the_other_is_faster)
    async with SqlSagaLog.open(path) as log:
        assert (await log.decide("sg-1", opening())).saga.opened
    assert made


def _make(path: Path) -> None:
    async def other_process() -> None:
        async with SqlSagaLog.open(path) as log:
            await log.decide("sg-0", opening())

    # The hook runs in a thread of its own, where a loop of its own may run.
    anyio.run(other_process)
