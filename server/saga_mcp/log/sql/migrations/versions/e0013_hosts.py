"""Steps say of which machine they are, and when people were told that it is needed (SEMANTICS.md S1.3).

No table changes: older versions do not know the event, and must not drive a saga that has it.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Mark the log as one that may hold the event of epoch 13."""
    op.execute("UPDATE saga_log_meta SET epoch = 13")
