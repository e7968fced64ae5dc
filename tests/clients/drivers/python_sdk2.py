"""The Python SDK 2.x under remote control, in the era that its mode says."""

import asyncio

from mcp import Client, StdioServerParameters
from tests.clients.drivers.lines import Connected, Json, obey, target


async def main() -> None:
    to = target()
    server = StdioServerParameters(command=to["command"], args=to["args"], env=to["env"])
    async with Client(server, mode=to["mode"]) as client:

        async def tools() -> Json:
            listed = await client.list_tools()
            return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]

        async def call(name: str, arguments: Json) -> Json:
            result = await client.call_tool(name, arguments)
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)

        await obey(Connected(client.protocol_version, tools, call))


asyncio.run(main())
