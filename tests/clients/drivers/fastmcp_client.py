"""FastMCP's client under remote control. Runs in an environment of its own, and so sees other types than we do."""

import asyncio
import importlib
from typing import Any

from tests.clients.drivers.lines import Connected, obey, target

fastmcp: Any = importlib.import_module("fastmcp")
transports: Any = importlib.import_module("fastmcp.client.transports")


async def main() -> None:
    to = target()
    transport = transports.StdioTransport(to["command"], to["args"], env=to["env"], keep_alive=False)
    async with fastmcp.Client(transport, mode=to["mode"]) as client:

        async def tools() -> Any:  # noqa: ANN401 - see above
            listed = await client.list_tools()
            return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]

        async def call(name: str, arguments: Any) -> Any:  # noqa: ANN401 - see above
            result = await client.call_tool(name, arguments, raise_on_error=False)
            return {
                "content": [block.model_dump(mode="json", by_alias=True) for block in result.content],
                "structuredContent": result.structured_content,
                "isError": result.is_error,
                "_meta": result.meta,
            }

        await obey(Connected(client.protocol_version, tools, call))


asyncio.run(main())
