"""Serving over streamable HTTP: who may come in, and what a connection means. Imported only where it is asked for."""
