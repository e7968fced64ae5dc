"""The fixture as users make it known."""

from saga_mcp.testing.fixture import saga_harness

__all__ = ["saga_harness"]
