"""Fixtures of the saga log's tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

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
