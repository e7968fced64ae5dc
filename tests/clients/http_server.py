"""`saga-mcp serve --http` for clients and suites that speak nothing else, with tools of a test where it gives some.

For tests only. Writes where it listens as its first line of output, and is told to stop when its standard input ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import anyio

from saga_mcp import app
from saga_mcp.cli.serve_http import Around
from saga_mcp.cli.serve_http import serve as serve_http
from saga_mcp.edge.logging import configure_logging


async def serve(around: Around | None = None) -> None:
    """Serve the config that the first argument names; `around` puts other tools in place of its own."""
    configure_logging("warning", json=False, stream=sys.stderr)
    threading.Thread(target=_stop_at_the_end, daemon=True).start()
    await serve_http(app.load(Path(sys.argv[1])), (), "127.0.0.1", 0, around)


def _stop_at_the_end() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    anyio.run(serve)
