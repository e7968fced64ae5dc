"""What is to be told to others, until it is delivered (SEMANTICS.md S10.6)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table of epoch 5."""
    op.create_table(
        "saga_outbox",
        sa.Column("saga_id", sa.String, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("realm", sa.String, nullable=False),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("waits_from_s", sa.Float, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Float),
        sa.Column("parked", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    where = sa.text("due_at IS NOT NULL")
    op.create_index("saga_outbox_due", "saga_outbox", ["realm", "due_at"], sqlite_where=where, postgresql_where=where)
    op.execute("UPDATE saga_log_meta SET epoch = 5")
