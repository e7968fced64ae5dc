"""Fixtures that several directories of tests share."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from tests.e2e.product import Product
from tests.postgres.server import PostgresServer, fresh, templated
from tests.world.disk import mounted
from tests.world.reading import World

from saga_mcp.log.place import ServerPlace


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Generator[None]:
    """A command configures logging for its process; the process of the tests lives on."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    structlog.reset_defaults()
    # With rich and all locals, which is the default, a traceback takes a second on a busy machine.
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], renderer])
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """LEDGER's outside world, empty."""
    world = World(tmp_path / "world.jsonl")
    monkeypatch.setenv("LEDGER", str(world.file))
    return world


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of its own, that is soon full."""
    with mounted(tmp_path / "disk") as possible:
        if not possible:
            pytest.skip("mounting takes root")
        yield tmp_path / "disk"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "saga.db"


@pytest.fixture
def product(tmp_path: Path) -> Product:
    """The product over real pipes, serving LEDGER."""
    return Product(tmp_path)


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    """A PostgreSQL server, one for all tests of a worker: no test may harm it."""
    with templated() as server:
        yield server


@pytest.fixture
def own_server() -> Generator[PostgresServer]:
    """A PostgreSQL server that a test may harm."""
    with templated() as server:
        yield server


@pytest.fixture
def server_place(postgres: PostgresServer, tmp_path: Path) -> Generator[ServerPlace]:
    """A fresh saga log in a database of its own."""
    with fresh(postgres) as name:
        yield postgres.place(name, tmp_path)
