"""A step's plan holds a nonce, of which its key is made (SEMANTICS.md S6.3): older versions cannot read it."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Name epoch 12. Steps of older versions have no nonce, and keep their keys."""
    op.execute("UPDATE saga_log_meta SET epoch = 12")
