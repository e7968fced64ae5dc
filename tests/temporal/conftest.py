"""One Temporal dev server for all tests of a run, and a realm of its own for each."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.temporal.dev_server import DevServer, dev_server
from tests.temporal.served import Realm
from tests.world import server


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Generator[DevServer]:
    with dev_server(tmp_path_factory.mktemp("temporal")) as running:
        yield running


@pytest.fixture
def realm(temporal: DevServer, database: Path) -> Realm:
    return Realm(temporal, f"ledger-{secrets.token_hex(4)}", database)


@pytest.fixture(autouse=True)
def _takeovers_take_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal notices after seconds that a worker is gone, and a busy machine takes its time."""
    monkeypatch.setattr(server, "BOUND_S", 60.0)
