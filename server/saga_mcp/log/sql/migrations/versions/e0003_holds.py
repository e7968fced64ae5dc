"""Which saga holds what to its end (SEMANTICS.md S9.2)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table of epoch 3."""
    op.create_table(
        "saga_hold",
        sa.Column("realm", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("saga_id", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute("UPDATE saga_log_meta SET epoch = 3")
