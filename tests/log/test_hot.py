"""What the hot path's statements leave behind: nothing, whatever happens to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import BigInteger, Column, MetaData, NullPool, Table, create_engine, func, select
from sqlalchemy.exc import DBAPIError
from tests.log.foreign import foreign

from saga_mcp.log.sql.hot import Hot

NUMBERS = Table("numbers", MetaData(), Column("n", BigInteger))


def test_a_read_that_the_database_breaks_off_is_refused_like_any_other_and_keeps_no_snapshot(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with foreign(path) as raw, engine.connect() as connection:
        raw.execute("PRAGMA journal_mode=wal")
        raw.execute("CREATE TABLE numbers (n)")
        raw.executemany("INSERT INTO numbers VALUES (?)", [(1,), (-(2**63),), (2,)])
        absolute = Hot(select(func.abs(NUMBERS.c.n)), engine.dialect)  # the second one has no absolute value
        with connection.begin(), pytest.raises(DBAPIError, match="integer overflow") as kept:
            list(absolute.rows(connection, {}))
        raw.execute("INSERT INTO numbers VALUES (3)")
        with connection.begin():
            assert Hot(select(func.count()).select_from(NUMBERS), engine.dialect).value(connection, {}) == 4
        assert kept.value.params is None
