"""Asks a server for its tools, and leaves out those that cannot be read, so that the others stand.

The SDK refuses a whole list for one tool that is not as the protocol has it. Whoever asks learns which were left out,
and why.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import mcp_types as types
from mcp.client import Client
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import methods
from pydantic import ValidationError

from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.streams import Incoming

_MOST_PAGES = 100
_METHOD = "tools/list"

Read = ReadStream[SessionMessage | Exception]
Write = WriteStream[SessionMessage]


class ToolLists:
    """The lists of tools of one connection."""

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}
        """Of the last list: which tools cannot be read, and why."""
        self._version = ""

    @contextlib.asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[tuple[Read, Write]]) -> AsyncGenerator[tuple[Any, Any]]:
        """The transport, through which the client sees only what can be read."""
        async with transport as (read, write):
            yield _Sieved(read, self), write

    async def ask(self, client: Client) -> list[types.Tool]:
        """Return the tools that the server lists.

        Args:
            client: Connected, over a transport that went through `over`.

        Raises:
            MCPError: The server answers with an error.
            ValidationError: What it answers is no list of tools.
        """
        self._version = client.protocol_version
        self.left_out.clear()
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return tools

    def readable(self, result: JsonObject) -> JsonObject:
        """Return a result without tools that cannot be read; any other as it is."""
        listed = result.get("tools")
        if not self._version or not isinstance(listed, list) or self._wrong({**result, "tools": []}):
            return result
        kept: list[JsonValue] = []
        for place, tool in enumerate(listed):
            if wrong := self._wrong({**result, "tools": [tool]}):
                name = tool.get("name") if isinstance(tool, dict) else None
                self.left_out[name if isinstance(name, str) else f"number {place + 1} of the list"] = wrong
            else:
                kept.append(tool)
        return {**result, "tools": kept}

    def _wrong(self, result: JsonObject) -> str:
        try:
            methods.parse_server_result(_METHOD, self._version, result)
        except ValidationError as error:
            return "; ".join(_line(each["loc"], each["msg"]) for each in error.errors())
        return ""


def _line(where: tuple[str | int, ...], message: str) -> str:
    inside = where[where.index("tools") + 2 :] if "tools" in where else where
    return f"{'.'.join(map(str, inside))}: {message}" if inside else message


class _Sieved(Incoming):
    def __init__(self, inner: Read, lists: ToolLists) -> None:
        self._inner = inner
        self._lists = lists

    async def receive(self) -> SessionMessage | Exception:
        item = await self._inner.receive()
        if isinstance(item, Exception) or not isinstance(item.message, types.JSONRPCResponse):
            return item
        message = item.message
        readable = self._lists.readable(cast("JsonObject", message.result))
        if readable is message.result:
            return item
        return SessionMessage(message.model_copy(update={"result": readable}), metadata=item.metadata)

    async def aclose(self) -> None:
        await self._inner.aclose()
