"""Which processes hold their advisory locks in a PostgreSQL database, and what their rows say of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, text

from saga_mcp.log.owners import LivingOwner

HELD: Final = (
    "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
    "AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
OWNERS: Final = (
    f"SELECT id, place, host, pid, epoch, serves, started_at, server_started, beats, lock IN ({HELD}) AS held, "  # noqa: S608 - our own words
    "pg_postmaster_start_time()::text AS server_now FROM saga_owner"
)


class OwnerRow(NamedTuple):
    """An owner as the database knows it."""

    id: str
    place: str
    host: str
    pid: int
    epoch: int
    serves: str
    started_at: float
    server_started: str
    beats: int
    held: bool
    """Whether it holds its lock now."""
    server_now: str
    """In which life of the server that was seen."""


def lock_of(owner: str) -> int:
    """The advisory lock of an owner id, `own-` and 16 hexadecimal digits."""
    number = int(owner.removeprefix("own-"), 16)
    return number - 2**64 if number >= 2**63 else number


def owners(connection: Connection) -> list[LivingOwner]:
    """Processes that hold their locks, inside an open transaction."""
    rows = connection.execute(text(OWNERS)).all()
    return [_living(row) for row in rows if row.held]


def _living(row: Row[Any]) -> LivingOwner:
    return LivingOwner(row.id, row.pid, row.epoch, row.started_at, row.serves, row.host)
