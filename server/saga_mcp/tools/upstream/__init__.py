"""Tools of other MCP servers: their clients, kept alive by us, and the adapter of their tools to the port.

Loaded only where the config names an upstream: the SDK's client is most of it.
"""
