"""Which real clients the stories are told to."""

from __future__ import annotations

from collections.abc import Mapping

from tests.clients.remote import Kind

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
"""The protocol revisions of the two eras."""

KINDS: Mapping[str, Kind] = {
    "python-sdk1": Kind("python_sdk1.py", HANDSHAKE, environment="sdk1"),
    "python-sdk2-legacy": Kind("python_sdk2.py", HANDSHAKE, mode="legacy"),
    "python-sdk2-auto": Kind("python_sdk2.py", MODERN, mode="auto"),
    "python-sdk2-modern": Kind("python_sdk2.py", MODERN, mode=MODERN),
    "fastmcp-legacy": Kind("fastmcp_client.py", HANDSHAKE, environment="fastmcp", mode="legacy"),
    "fastmcp-auto": Kind("fastmcp_client.py", MODERN, environment="fastmcp", mode="auto"),
    "typescript-sdk1": Kind("typescript_sdk1.mjs", HANDSHAKE),
    "typescript-client2": Kind("typescript_client2.mjs", HANDSHAKE),
    "typescript-client2-auto": Kind("typescript_client2.mjs", MODERN, mode="auto"),
    "mcp-remote": Kind("python_sdk1.py", HANDSHAKE, environment="sdk1", bridged=True),
}
IN_JAVASCRIPT = frozenset(name for name, kind in KINDS.items() if kind.driver.endswith(".mjs") or kind.bridged)
"""Where an integer beyond 2^53 is rounded before anybody sees it."""
