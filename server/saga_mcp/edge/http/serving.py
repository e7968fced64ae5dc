"""Listens, answers, and ends in bounded time: first no new connections, then what runs, then the process (S12.1)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Generator

import anyio
import structlog
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp

from saga_mcp.edge.http.patience import PatientProtocol
from saga_mcp.edge.stopping import Drain, exit_after, stop_on_signal

_CLEANUP_S = 1.0
"""How long the caller may take to close what it opened once `serve_http` is done."""
_BACKLOG = 2048
_KEEP_ALIVE_S = 75
"""Longer than a proxy keeps its idle connections, usually 60 s: else it sends a request into one that we just close."""

_log = structlog.get_logger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """Take an address.

    Raises:
        OSError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # Its connections inherit it. asyncio does this for sockets that it makes; without, each reply waits 40 ms for the
    # client's delayed acknowledgement of its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Stopping:
    """Whether this process is on its way out."""

    def __init__(self) -> None:
        self.begun = False


async def serve_http(
    app: ASGIApp,
    manager: StreamableHTTPSessionManager,
    listening: socket.socket,
    *,
    drain: Drain,
    drain_s: float,
    stopping: Stopping,
    end_streams: Callable[[], None],
) -> None:
    """Answer until SIGTERM, SIGINT or CTRL_BREAK, then drain and return; the process ends soon after.

    On the signal the listening socket closes, so that whoever comes next goes to another process; calls that wait get
    their replies for `drain_s`. What then still runs falls in doubt, which the next process settles. A second signal
    ends the process at once. Must run on the main thread, under asyncio.

    Args:
        app: what answers.
        manager: runs the protocol.
        listening: as `listen` returned it.
        drain: waits for what runs.
        drain_s: how long that may take, in seconds.
        stopping: is told.
        end_streams: ends what listening clients hold open, which would never end by itself.
    """
    stop = stop_on_signal(hard_exit_after_s=drain_s + _CLEANUP_S)
    web = _Web(
        uvicorn.Config(
            app,
            http=PatientProtocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing is decided on where a request came from
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=None,
        )
    )
    async with manager.run(), anyio.create_task_group() as tasks:
        served = anyio.Event()

        async def serve() -> None:
            await web.serve([listening])
            served.set()

        tasks.start_soon(serve)
        await stop.wait()
        _log.info("stop_requested")
        stopping.begun = True
        web.should_exit = True
        end_streams()
        with anyio.move_on_after(drain_s, shield=True):
            try:
                await drain(drain_s)
            except Exception:  # noqa: BLE001 - the process must end whatever the drain met
                _log.exception("drain_failed")
            await served.wait()
        exit_after(_CLEANUP_S)
        web.force_exit = True
        tasks.cancel_scope.cancel()


class _Web(uvicorn.Server):
    """Uvicorn, which leaves the signals to us: it would raise them again and end the process by them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
