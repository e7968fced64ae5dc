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
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'saga.db'}"


@pytest.fixture
async def log(url: str) -> AsyncGenerator[SqlSagaLog]:
    async with SqlSagaLog.open(url) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "saga.db"
