"""The saga log in a PostgreSQL database: what is particular to that. Needs the extra `saga-mcp[postgres]`."""
