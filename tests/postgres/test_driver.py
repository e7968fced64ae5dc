"""What the driver does where its connection ends, and how that is told."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from saga_mcp.log.place import ServerPlace
from saga_mcp.log.sql.postgres import connecting


async def test_a_connection_that_ends_within_the_drivers_own_work_counts_as_lost(
    server_place: ServerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between preparing a statement and sending it the driver does not look whether it still has a connection."""
    driver: Any = asyncpg.Connection
    prepare = driver._get_statement

    async def and_end(connection: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the driver's
        statement: object = await prepare(connection, *args, **options)
        connection.terminate()
        return statement

    raw = await connecting.Server(server_place.url).connect_raw()
    monkeypatch.setattr(driver, "_get_statement", and_end)
    with pytest.raises(ConnectionError, match="ended"), connecting.answering(raw, 10.0):
        await raw.execute("SELECT pg_advisory_lock($1)", 1)
