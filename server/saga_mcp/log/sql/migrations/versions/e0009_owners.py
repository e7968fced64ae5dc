"""Who is alive, where several machines share the database (SEMANTICS.md S3.5, S10.4)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the table of epoch 9."""
    op.create_table(
        "saga_owner",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("lock", sa.BigInteger, nullable=False),
        sa.Column("place", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("serves", sa.String, nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("server_started", sa.String, nullable=False),
        sa.Column("beats", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute("UPDATE saga_log_meta SET epoch = 9")
