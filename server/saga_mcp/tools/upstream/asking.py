"""Asks a server which tools it has, once, and calls none of them.

Over the same way that serving takes, so that what comes up here comes up there: the same environment, headers and
proxies, and no program outlives us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
import mcp_types as types
from mcp.client import Client

from saga_mcp.tools.running import describe
from saga_mcp.tools.upstream.declared import Endpoint, Program
from saga_mcp.tools.upstream.listing import ToolLists
from saga_mcp.tools.upstream.opening import opened, streams
from saga_mcp.tools.upstream.process import Process

_LONGEST_SAID = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A server that answered."""

    server: str
    """The name that it gives itself."""
    version: str
    tools: tuple[types.Tool, ...]
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A server that could not be asked."""

    reason: str


Answer: TypeAlias = Listed | Silent


async def ask(place: Program | Endpoint, name: str, *, within_s: float) -> Answer:
    """Ask one server; a program is started for it, and ended.

    Args:
        place: Where it is.
        name: What the log calls it.
        within_s: How long it may take, in seconds. A first `npx` or `uvx` downloads what it starts.
    """
    process: Process | None = None
    lists = ToolLists()
    try:
        with anyio.fail_after(within_s):
            async with opened(place, name) as (process, tap), Client(lists.over(streams(tap)), cache=None) as client:
                tools = await lists.ask(client)
                server = client.server_info
    except TimeoutError:
        return Silent(f"no answer within {within_s:g} s (a first start may download: start it once alone)")
    except Exception as error:  # noqa: BLE001 - whatever somebody's server does, it costs only itself
        said = "" if process is None else process.said[:_LONGEST_SAID]
        return Silent(f"{describe(error)}: {said}" if said else describe(error))
    return Listed(server.name if server else "", server.version if server else "", tuple(tools), lists.left_out)
