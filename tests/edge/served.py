"""The MCP server over the real engine, a real log in a file, and Python tools; only the transport is in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mcp_types as types
from mcp.client import Client
from mcp.server.lowlevel import Server

from saga_mcp.edge.server import build_server
from saga_mcp.engine.drivers.local import LocalDriver
from saga_mcp.engine.engine import Engine
from saga_mcp.engine.port import EngineSettings
from saga_mcp.log.sql.log import SqlSagaLog, claim_owner
from saga_mcp.tools.catalogue import catalogue_of
from saga_mcp.tools.declared import declare
from saga_mcp.tools.python import PythonRegistry, PythonThreads
from saga_tools import ToolRegistry

ERAS = ("legacy", "2026-07-28")


@dataclass(frozen=True, slots=True)
class Served:
    """A server with its engine, for tests that look behind the wire."""

    server: Server[Any]
    engine: Engine


@asynccontextmanager
async def served(directory: Path, registry: ToolRegistry, *, settings: EngineSettings) -> AsyncGenerator[Served]:
    """Serve the tools of `registry` from a log in `directory`."""
    database = directory / "saga.db"
    declared = declare("shop", registry)
    python = PythonRegistry(declared, PythonThreads())
    catalogue = catalogue_of([declared], {"shop": python})
    with claim_owner(database) as owners:
        async with (
            SqlSagaLog.open(database) as log,
            python.opened(),
            Engine.running(settings, log, owners, catalogue, LocalDriver) as engine,
        ):
            yield Served(build_server(engine, catalogue, now=lambda: 0.0), engine)


def text_of(result: types.CallToolResult) -> str:
    """The last text block."""
    last = result.content[-1]
    assert isinstance(last, types.TextContent)
    return last.text


def texts_of(result: types.CallToolResult) -> list[str]:
    """All text blocks."""
    return [block.text for block in result.content if isinstance(block, types.TextContent)]


def meta_of(result: types.CallToolResult) -> dict[str, Any]:
    """The reply's `_meta`."""
    assert result.meta is not None
    return result.meta


def facts_of(result: types.CallToolResult) -> dict[str, Any]:
    """The saga facts in `_meta`."""
    facts: dict[str, Any] = meta_of(result)["saga"]
    return facts


def meta(**entries: object) -> types.RequestParamsMeta:
    """A request's `_meta`, which is an open map though its type names only some keys."""
    return cast("types.RequestParamsMeta", entries)


async def begin(client: Client, **arguments: object) -> str:
    """Open a saga and return its id."""
    result = await client.call_tool("saga_begin", dict(arguments))
    assert result.is_error is False, texts_of(result)
    saga_id: str = result.structured_content["saga_id"]
    return saga_id
