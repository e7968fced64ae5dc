"""`saga-mcp check` and `saga-mcp try`: whether what the config says can be done with the servers as they are."""
