"""The kinds of database that a saga log can be kept in; the one in memory is the tests' own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from tests.world.memory import MemoryDatabase, MemoryLog

from saga_mcp.log.port import SagaLog
from saga_mcp.log.sql import SqlSagaLog

Database: TypeAlias = Path | MemoryDatabase


@asynccontextmanager
async def opened_log(database: Database) -> AsyncGenerator[SagaLog]:
    """The log of a database, as one process sees it."""
    if isinstance(database, MemoryDatabase):
        yield MemoryLog(database)
        return
    async with SqlSagaLog.open(database, poll_s=0.02) as opened:
        yield opened
