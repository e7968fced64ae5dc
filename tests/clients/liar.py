"""A server whose structured result is not what its schema says: shows that a client looks."""

from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


async def _list(
    _ctx: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    tool = types.Tool(name="lie", input_schema={"type": "object"}, output_schema=_SCHEMA)
    return types.ListToolsResult(tools=[tool])


async def _call(_ctx: ServerRequestContext[Any, Any], _params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content={"id": "none"})


async def main() -> None:
    server: Server[Any] = Server("liar", on_list_tools=_list, on_call_tool=_call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
