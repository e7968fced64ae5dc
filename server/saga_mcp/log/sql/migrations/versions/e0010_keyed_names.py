"""What is held or locked is named by an HMAC instead of a plain digest (SEMANTICS.md S11.4)."""

from __future__ import annotations

import hashlib
import hmac

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_NAMED = ("saga_hold", "saga_step_lock")


def upgrade() -> None:
    """Rename what is there: the new name is made of the old one, so every hold stays what it was."""
    connection = op.get_bind()
    key = bytes.fromhex(str(connection.execute(sa.text("SELECT hmac_key FROM saga_log_meta")).scalar_one()))
    for name in _NAMED:
        table = sa.table(name, sa.column("realm", sa.String), sa.column("name", sa.String))
        for row in connection.execute(sa.select(table.c.realm, table.c.name)).all():
            keyed = hmac.new(key, row.name.encode("ascii"), hashlib.sha256).hexdigest()
            here = (table.c.realm == row.realm, table.c.name == row.name)
            connection.execute(sa.update(table).where(*here).values(name=keyed))
    op.execute("UPDATE saga_log_meta SET epoch = 10")
