"""The key of the HMACs that stand for secrets which are not stored (SEMANTICS.md S11.4)."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_KEY_BYTES = 32


def upgrade() -> None:
    """Make the key of epoch 7."""
    op.add_column("saga_log_meta", sa.Column("hmac_key", sa.String, nullable=False, server_default=""))
    key = secrets.token_hex(_KEY_BYTES)
    op.execute(sa.text("UPDATE saga_log_meta SET epoch = 7, hmac_key = :key").bindparams(key=key))
