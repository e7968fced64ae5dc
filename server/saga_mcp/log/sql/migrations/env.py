"""What Alembic runs: the revisions, over the connection that `upgrade` hands in and inside its transaction."""

from __future__ import annotations

from alembic import context

from saga_mcp.log.sql.indices import with_indices

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=with_indices(),
    version_table="saga_log_revision",
)
context.run_migrations()
