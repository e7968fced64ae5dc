"""Fixtures of the saga log's tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.log.kinds import Database
from tests.world.memory import MemoryDatabase

from saga_mcp.log.place import ServerPlace
from saga_mcp.log.sql import SqlSagaLog


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def log(path: Path) -> AsyncGenerator[SqlSagaLog]:
    async with SqlSagaLog.open(path) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "saga.db"


@pytest.fixture(params=["sqlite", "postgresql", "memory"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A fresh database of each kind."""
    match request.param:
        case "memory":
            return MemoryDatabase()
        case "postgresql":
            place: ServerPlace = request.getfixturevalue("server_place")
            return place
        case _:
            return tmp_path / "saga.db"
