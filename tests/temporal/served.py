"""Servers and workers of the `temporal` driver in this process, over LEDGER and a real log."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.temporal.dev_server import DevServer
from tests.world.server import Server, served

from saga_mcp.drivers import temporal_driver


@asynccontextmanager
async def serving(temporal: DevServer, realm: str, database: Path, **changed: Any) -> AsyncGenerator[Server]:  # noqa: ANN401 - see `served`
    """Serve LEDGER, and leave all driving to workers."""
    async with served(database, driver=temporal_driver(temporal.place, realm), realm=realm, **changed) as server:
        yield server


@asynccontextmanager
async def working(temporal: DevServer, realm: str, database: Path, **changed: Any) -> AsyncGenerator[Server]:  # noqa: ANN401 - see `served`
    """Be a worker of a realm."""
    driver = temporal_driver(temporal.place, realm, works=True)
    async with served(database, driver=driver, realm=realm, **changed) as worker:
        yield worker
