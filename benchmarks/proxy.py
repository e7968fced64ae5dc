"""The baseline of upstream calls: the SDK's server before the SDK's client, and nothing between them."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

UPSTREAM = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("bare.py"))])


@asynccontextmanager
async def connected(_server: Server[Client]) -> AsyncGenerator[Client]:
    """Hold one client of the upstream open."""
    async with Client(UPSTREAM) as client:
        yield client


async def list_tools(
    ctx: ServerRequestContext[Client], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List what the upstream lists."""
    return await ctx.lifespan_context.list_tools()


async def call_tool(ctx: ServerRequestContext[Client], params: types.CallToolRequestParams) -> types.CallToolResult:
    """Pass the call on, and its result back."""
    return await ctx.lifespan_context.call_tool(params.name, params.arguments or {})


async def main() -> None:
    """Serve until stdin is closed."""
    server = Server("proxy", version="1", lifespan=connected, on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
