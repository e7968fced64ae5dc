"""Fixtures of the schedules over replicas."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.postgres.server import PostgresServer, make_template, running


@pytest.fixture(scope="module")
def own_server() -> Generator[PostgresServer]:
    """A server that a schedule may harm."""
    with running() as server:
        make_template(server)
        yield server
