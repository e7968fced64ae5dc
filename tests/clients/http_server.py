"""The server object of the product behind Streamable HTTP, for clients and suites that speak nothing else.

For tests only: config, engine, tools and log are the real ones, and so is the server object; the transport is the
SDK's. Writes the URL it listens at as its first line of output, and ends with its standard input.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import uvicorn

from saga_mcp import app
from saga_mcp.edge.logging import configure_logging
from saga_mcp.edge.server import build_server
from saga_mcp.tools.port import Catalogue


async def serve(around: Callable[[Catalogue], Catalogue] | None = None) -> None:
    """Serve the config that the first argument names; `around` puts other tools in place of its own."""
    configure_logging("warning", json=False, stream=sys.stderr)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with app.open_app(app.load(Path(sys.argv[1])), around=around) as opened:
            served = build_server(opened.engine, opened.catalogue).streamable_http_app(
                stateless_http=True, json_response=True
            )
            server = uvicorn.Server(uvicorn.Config(served, log_level="warning"))
            sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
            sys.stdout.flush()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listening])
                await anyio.to_thread.run_sync(sys.stdin.read)
                server.should_exit = True


if __name__ == "__main__":
    anyio.run(serve)
