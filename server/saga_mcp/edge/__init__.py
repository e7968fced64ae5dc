"""The MCP edge: tool list, results, control tools, and the stdio transport."""
