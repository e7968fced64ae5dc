"""The first schema.

Written out, not derived from `tables`: a revision says what it did on the day it was made.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from saga_mcp.log.sql.schema import APPLICATION_ID

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables of epoch 1."""
    meta = op.create_table(
        "saga_log_meta",
        sa.Column("only_row", sa.Integer, primary_key=True),
        sa.Column("epoch", sa.Integer, nullable=False),
    )
    op.create_table(
        "saga_realm",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("observed_s", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "saga",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("realm", sa.String, nullable=False),
        sa.Column("caller", sa.String, nullable=False),
        sa.Column("conversation", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("phase", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("driver", sa.String, nullable=False),
        sa.Column("busy", sa.Boolean, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
        sa.Column("items", sa.Integer, nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False),
        sa.Column("idle_from_s", sa.Float),
        sqlite_with_rowid=False,
    )
    op.create_index("saga_newest", "saga", ["realm", "opened_at"])
    for name, columns, unique, condition in (
        ("saga_open", ["realm", "opened_at"], False, "open"),
        ("saga_busy", ["realm", "opened_at"], False, "busy"),
        ("saga_waiting", ["realm", "opened_at"], False, "items > 0"),
        ("saga_idle", ["realm", "idle_from_s"], False, "idle_from_s IS NOT NULL"),
        ("saga_key", ["realm", "caller", "key"], True, "key <> ''"),
    ):
        where = sa.text(condition)
        op.create_index(name, "saga", columns, unique=unique, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "saga_event",
        sa.Column("saga_id", sa.String, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("batch_id", sa.String, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("payload", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "saga_pair",
        sa.Column("hash", sa.String, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.bulk_insert(meta, [{"only_row": 1, "epoch": 1}])
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"PRAGMA application_id={APPLICATION_ID}")
