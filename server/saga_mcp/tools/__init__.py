"""Where calls go: the port of the tools, its adapters, and argument binding."""
