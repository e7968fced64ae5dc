"""`INSERT ... ON CONFLICT`, which SQL leaves to each database; both of ours have it in the same words."""

from __future__ import annotations

from sqlalchemy import Insert, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Dialect


def insert_new(table: Table, dialect: Dialect) -> Insert:
    """An insert that leaves alone what is there already; values are the caller's to add."""
    if dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - a start over SQLite does not pay for it

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()
