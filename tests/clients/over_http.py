"""Where `http_server.py` is started, and `mcp-remote`, which makes a stdio server of it again."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.clients.installed import NODE, PROJECT, node_modules
from tests.clients.remote import BOUND_S
from tests.e2e.product import Product


@asynccontextmanager
async def served_over_http(product: Product, server: str = "http_server") -> AsyncGenerator[str]:
    """Serve the product's config over HTTP until the block ends; the URL."""
    command = [sys.executable, "-m", f"tests.clients.{server}", str(product.config)]
    process = await anyio.open_process(command, stderr=sys.stderr, cwd=PROJECT, env={**os.environ, **product.world.env})
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with anyio.fail_after(BOUND_S):
            url = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1000)
        yield url.decode().split()[-1]
        await process.stdin.aclose()
        with anyio.fail_after(BOUND_S):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()


def mcp_remote(url: str) -> list[str]:
    """What starts the bridge from stdio to that URL."""
    bridge = node_modules() / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
    return [str(NODE), str(bridge), url, "--transport", "http-only"]
