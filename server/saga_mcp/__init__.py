"""saga-mcp: an MCP server that makes an agent's tool calls undoable."""
