"""The indices of the saga log: for whoever creates or compares a schema, not for whoever only uses one.

The partial ones keep what start-up and `list` read as small as the work that is open (DESIGN.md section 8). Apart from
the tables because each condition names the databases that it is for, and SQLAlchemy then loads what it knows of them:
all of PostgreSQL, at each start of a server whose log is a file.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, MetaData, text

from saga_mcp.log.sql.tables import metadata, outbox, saga


def with_indices() -> MetaData:
    """The tables with their indices."""
    return metadata


def _where(name: str, condition: str, *columns: Column[Any], unique: bool = False) -> None:
    Index(name, *columns, unique=unique, sqlite_where=text(condition), postgresql_where=text(condition))


Index("saga_newest", saga.c.realm, saga.c.opened_at)
_where("saga_open", "open", saga.c.realm, saga.c.opened_at)
_where("saga_busy", "busy", saga.c.realm, saga.c.opened_at)
_where("saga_waiting", "items > 0", saga.c.realm, saga.c.opened_at)
_where("saga_idle", "idle_from_s IS NOT NULL", saga.c.realm, saga.c.idle_from_s)
_where("saga_ended", "ended_at IS NOT NULL AND wiped_at IS NULL", saga.c.realm, saga.c.ended_at)
_where("saga_key", "key <> ''", saga.c.realm, saga.c.caller, saga.c.key, unique=True)
_where("saga_outbox_due", "due_at IS NOT NULL", outbox.c.realm, outbox.c.due_at)
