"""What proves that the log was not changed, and what is kept of values and of sagas (SEMANTICS.md S11.4, S11.5)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns and tables of epoch 8. What is in the log already has no chain, and is not given one."""
    op.add_column("saga_event", sa.Column("salt", sa.LargeBinary))
    op.add_column("saga_event", sa.Column("sealed", sa.LargeBinary))
    op.add_column("saga_event", sa.Column("key_id", sa.String))
    op.add_column("saga_event", sa.Column("committed", sa.LargeBinary))
    op.add_column("saga_event", sa.Column("link", sa.LargeBinary))
    op.add_column("saga", sa.Column("head", sa.LargeBinary))
    op.add_column("saga", sa.Column("chained_from", sa.Integer, nullable=False, server_default="1"))
    op.add_column("saga", sa.Column("ended_at", sa.Float))
    op.add_column("saga", sa.Column("wiped_at", sa.Float))
    op.execute("UPDATE saga SET chained_from = seq + 1")
    op.execute("UPDATE saga SET ended_at = updated_at WHERE phase IN ('committed', 'compensated')")
    where = sa.text("ended_at IS NOT NULL AND wiped_at IS NULL")
    op.create_index("saga_ended", "saga", ["realm", "ended_at"], sqlite_where=where, postgresql_where=where)
    op.create_table(
        "saga_tombstone",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("realm", sa.String, nullable=False),
        sa.Column("caller", sa.String, nullable=False),
        sa.Column("phase", sa.String, nullable=False),
        sa.Column("summary", sa.String, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("head", sa.LargeBinary),
        sa.Column("ended_at", sa.Float, nullable=False),
        sa.Column("pruned_at", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table("saga_log_key", sa.Column("id", sa.String, primary_key=True), sqlite_with_rowid=False)
    op.execute("UPDATE saga_log_meta SET epoch = 8")
