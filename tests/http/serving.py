"""`saga-mcp serve --http` as its callers see it: processes on loopback, and the SDK's own clients."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.e2e.product import BOUND_S, COMMAND, Product
from tests.world.running import Running, running

LEGACY, MODERN = "legacy", "2026-07-28"
OTHER_ERA = pytest.param(LEGACY, marks=pytest.mark.slow)
"""Where what is shown does not hang on the era."""


@dataclass(frozen=True)
class Server:
    """One process that serves."""

    url: str
    process: Running

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")


async def server_of(started: Running) -> Server:
    """The server that a process is, once it has said where it listens."""
    return Server((await started.line()).split()[-1], started)


@asynccontextmanager
async def serving(
    product: Product, *options: str, address: str = "127.0.0.1:0", env: Mapping[str, str] | None = None
) -> AsyncGenerator[Server]:
    """Serve the product's config over HTTP; ended when the block does."""
    log = product.folder / f"server{len(list(product.folder.glob('server*.log')))}.log"
    environment = {**os.environ, **product.world.env, "LEDGER_SETTLE_S": "0.2", "LEDGER_TIMEOUT_S": "30", **(env or {})}
    command = [*COMMAND, "serve", "--config", str(product.config), "--http", address, *options]
    async with running(command, log, env=environment) as started:
        yield await server_of(started)


class Agent:
    """A caller with a client of the SDK."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, /, **arguments: object) -> Answer:
        with anyio.fail_after(BOUND_S):
            return Answer(await self.client.call_tool(name, cast("dict[str, Any]", arguments)))

    async def begin(self, **arguments: object) -> str:
        answer = await self.call("saga_begin", **arguments)
        assert not answer.is_error, answer.text
        return answer.saga_id

    async def status(self, saga_id: str) -> dict[str, Any]:
        return (await self.call("saga_status", saga_id=saga_id)).structured

    async def open(self) -> list[str]:
        rows = (await self.call("saga_status")).structured["sagas"]
        return [cast("str", row["saga_id"]) for row in rows]

    async def until(self, saga_id: str, *states: str) -> dict[str, Any]:
        """The status as soon as the saga's state is one of these."""
        with anyio.fail_after(BOUND_S):
            while (status := await self.status(saga_id))["state"] not in states:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
        return status


class Answer:
    """What a call came to."""

    def __init__(self, result: types.CallToolResult) -> None:
        self.is_error = bool(result.is_error)
        self.text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
        self.structured = cast("dict[str, Any]", result.structured_content)
        self.facts = cast("dict[str, Any]", (result.meta or {}).get("saga", {}))

    @property
    def saga_id(self) -> str:
        return cast("str", self.facts["id"])

    @property
    def code(self) -> str:
        return cast("str", self.facts.get("code", ""))

    @property
    def state(self) -> str:
        return cast("str", self.facts["state"])


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


@asynccontextmanager
async def agent(url: str, token: str = "", *, mode: str = MODERN, keep: bool = True) -> AsyncGenerator[Agent]:
    """A client of the SDK that bears this token; without `keep` each of its requests comes by a new connection."""
    async with AsyncExitStack() as stack:
        limits = httpx2.Limits() if keep else httpx2.Limits(max_keepalive_connections=0)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=bearing(token), timeout=BOUND_S, trust_env=False, limits=limits)
        )
        client = Client(streamable_http_client(url, http_client=http), mode=mode)
        yield Agent(await stack.enter_async_context(client))


def web() -> httpx2.AsyncClient:
    """A client that knows nothing of MCP."""
    return httpx2.AsyncClient(timeout=BOUND_S, trust_env=False)


def posted(name: str, /, **arguments: object) -> dict[str, Any]:
    """A call as any HTTP client would post it, in the older era."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
