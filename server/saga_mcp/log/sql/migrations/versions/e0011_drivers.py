"""Which driver brings a realm's sagas to rest (SEMANTICS.md S12.2)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table of epoch 11. Realms without a row have not named one yet."""
    op.create_table(
        "saga_driver",
        sa.Column("realm", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute("UPDATE saga_log_meta SET epoch = 11")
