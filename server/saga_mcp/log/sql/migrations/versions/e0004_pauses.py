"""Tools that a person has paused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table of epoch 4."""
    op.create_table(
        "saga_pause",
        sa.Column("realm", sa.String, primary_key=True),
        sa.Column("tool", sa.String, primary_key=True),
        sa.Column("by_whom", sa.String, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.add_column("saga_log_meta", sa.Column("pauses", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.execute("UPDATE saga_log_meta SET epoch = 4")
