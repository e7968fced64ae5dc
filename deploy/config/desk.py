"""Tools for the deployment as it is delivered: tickets, in a table of the same PostgreSQL server.

Every server and every worker reaches the same tickets. Tools of a shared saga-mcp have to be like that: what one
process did, another one undoes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from saga_tools import Call, ToolRegistry, Undo

_TABLE = "CREATE TABLE IF NOT EXISTS ticket (key text PRIMARY KEY, title text NOT NULL)"
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('ticket'))"


@asynccontextmanager
async def open_tickets() -> AsyncGenerator[asyncpg.Pool]:
    """Connect to where the tickets are, until the process ends."""
    server = f"postgresql://saga@{os.environ['SAGA_DATABASE_HOST']}/saga"
    async with asyncpg.create_pool(server, password=_password(), min_size=0, max_size=4) as tickets:
        async with tickets.acquire() as connection, connection.transaction():
            await connection.execute(_ONE_AT_A_TIME)  # many processes start at once
            await connection.execute(_TABLE)
        yield tickets


def _password() -> str:
    return Path(os.environ["SAGA_PASSWORD_FILE"]).read_text(encoding="utf-8").strip()


registry = ToolRegistry(lifespan=open_tickets)


@registry.tool(idempotent=True)
async def open_ticket(title: str, call: Call) -> dict[str, str]:
    """Open a ticket."""
    # The key is the same for each attempt of a step: a ticket that is there already is this one.
    await call.deps.execute("INSERT INTO ticket VALUES ($1, $2) ON CONFLICT DO NOTHING", call.key, title)
    return {"ticket": call.key}


@registry.undoes(open_ticket)
async def delete_ticket(undo: Undo[dict[str, str]]) -> None:
    """Delete the ticket, if it was opened."""
    await undo.deps.execute("DELETE FROM ticket WHERE key = $1", undo.call_key)
