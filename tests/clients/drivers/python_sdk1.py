"""The Python SDK 1.x under remote control. Runs in an environment of its own, and so sees other types than we do."""

import asyncio
import importlib
from typing import Any

from tests.clients.drivers.lines import Connected, obey, target

mcp: Any = importlib.import_module("mcp")
stdio: Any = importlib.import_module("mcp.client.stdio")


async def main() -> None:
    to = target()
    server = mcp.StdioServerParameters(command=to["command"], args=to["args"], env=to["env"])
    async with stdio.stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
        met = await session.initialize()

        async def tools() -> Any:  # noqa: ANN401 - see above
            return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in await listed()]

        async def listed() -> Any:  # noqa: ANN401 - see above
            return (await session.list_tools()).tools

        async def call(name: str, arguments: Any) -> Any:  # noqa: ANN401 - see above
            result = await session.call_tool(name, arguments)
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)

        await obey(Connected(met.protocolVersion, tools, call))


asyncio.run(main())
