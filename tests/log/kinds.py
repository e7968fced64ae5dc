"""The kinds of database that a saga log can be kept in; the one in memory is the tests' own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from tests.world.memory import MemoryDatabase, MemoryLog

from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import SagaLog
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.postgres.database import PostgresDatabase

Database: TypeAlias = Path | ServerPlace | MemoryDatabase


@asynccontextmanager
async def opened_log(database: Database) -> AsyncGenerator[SagaLog]:
    """The log of a database, as one process sees it."""
    if isinstance(database, MemoryDatabase):
        yield MemoryLog(database)
        return
    async with opened_sql_log(database) as opened:
        yield opened


@asynccontextmanager
async def opened_sql_log(database: Path | ServerPlace, *, outbox: bool = False) -> AsyncGenerator[SqlSagaLog]:
    """The log of a database that lasts."""
    if isinstance(database, Path):
        async with SqlSagaLog.open(database, poll_s=0.02, outbox=outbox) as opened:
            yield opened
        return
    server = PostgresDatabase(database)
    try:
        async with SqlSagaLog.over(server, outbox=outbox) as opened:
            yield opened
    finally:
        await server.session.aclose()
