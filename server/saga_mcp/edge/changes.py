"""Tells clients that the list of tools is not what it was: an upstream came up, or changed its own.

Each protocol era has its way: a client of the modern one listens, one of the older is told.
"""

from __future__ import annotations

from typing import Any

import structlog
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

_log = structlog.get_logger(__name__)


class ListChanges:
    """Who has seen the list of tools."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self.bus)
        self._session: ServerSession | None = None

    def seen(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Take note of who asked for the list. On stdio there is one client, so its last request is enough."""
        if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            self._session = ctx.session

    async def tell(self) -> None:
        """Tell everybody who has seen the list."""
        await self.bus.publish(ToolsListChanged())
        if self._session is None:
            return
        try:
            await self._session.send_tool_list_changed()
        except Exception as error:  # noqa: BLE001 - the client may be gone, which its connection notices by itself
            _log.debug("list_change_not_told", error_type=type(error).__name__)
