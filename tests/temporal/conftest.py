"""One Temporal dev server for all tests of a run, and a realm of its own for each."""

from __future__ import annotations

import secrets
from collections.abc import Generator

import pytest
from tests.temporal.dev_server import DevServer, dev_server


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Generator[DevServer]:
    with dev_server(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@pytest.fixture
def realm() -> str:
    return f"ledger-{secrets.token_hex(4)}"
