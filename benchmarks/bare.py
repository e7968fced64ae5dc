"""The baseline: the same tool on the SDK's low-level server over stdio, with nothing around it; also an upstream."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["name", "amount"],
}
FORGET: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def record(name: str, amount: int) -> dict[str, int | str]:
    """Record an amount."""
    return {"name": name, "amount": amount}


async def forget(name: str) -> dict[str, int | str]:
    """Take it back."""
    return {"name": name}


TOOLS: dict[str, tuple[Callable[..., Awaitable[dict[str, int | str]]], dict[str, Any]]] = {
    "record": (record, SCHEMA),
    "look": (record, SCHEMA),
    "forget": (forget, FORGET),
}


async def list_tools(
    _ctx: ServerRequestContext[object], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List the tools."""
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=str(function.__doc__), input_schema=schema)
            for name, (function, schema) in TOOLS.items()
        ]
    )


async def call_tool(_ctx: ServerRequestContext[object], params: types.CallToolRequestParams) -> types.CallToolResult:
    """Call one."""
    function, _ = TOOLS[params.name]
    result = await function(**(params.arguments or {}))
    text = types.TextContent(type="text", text=json.dumps(result))
    return types.CallToolResult(content=[text], structured_content=result)


async def main() -> None:
    """Serve until stdin is closed."""
    server = Server("bare", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
