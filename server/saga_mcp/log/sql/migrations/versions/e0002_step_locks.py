"""Who works on what: the locks of steps that keep what was there before them (SEMANTICS.md S5.3)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table of epoch 2."""
    op.create_table(
        "saga_step_lock",
        sa.Column("realm", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("saga_id", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("token", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute("UPDATE saga_log_meta SET epoch = 2")
