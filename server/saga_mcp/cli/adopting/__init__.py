"""Puts the servers that a client already has behind this one: reads its config, asks them, writes both configs."""
