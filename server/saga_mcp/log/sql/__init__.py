"""The SQLAlchemy adapter of the saga log's port. Only the composition root names it."""

from saga_mcp.log.sql.log import SqlSagaLog, claim_owner

__all__ = ["SqlSagaLog", "claim_owner"]
