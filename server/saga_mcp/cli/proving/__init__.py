"""`saga-mcp prove`: pairs rehearsed on a sandbox, and the world compared before and after."""
