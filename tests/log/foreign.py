"""Another program's hand on the log's file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from pathlib import Path

from tests.log.decisions import intending, opening, succeeding

from saga_mcp.log.sql import SqlSagaLog


@contextlib.contextmanager
def foreign(path: Path) -> Generator[sqlite3.Connection]:
    """Another program's connection to the file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


async def fill(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await log.decide("sg-a", opening())
        await log.decide("sg-a", intending(text="x" * 20_000))
        await log.decide("sg-a", succeeding())
