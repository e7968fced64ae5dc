"""Which sagas undo a committed one (SEMANTICS.md S13)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column of epoch 6."""
    op.add_column("saga", sa.Column("reverted_by", sa.String, nullable=False, server_default=""))
    op.execute("UPDATE saga_log_meta SET epoch = 6")
