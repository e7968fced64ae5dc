"""A load balancer that is as plain as they come: connection by connection to the next server, whoever asks."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import anyio.abc
from tests.http.serving import Server


class Balancer:
    """Passes connections on; a server that refuses one is passed over."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._next = itertools.cycle([urlsplit(server.base).port or 0 for server in servers])
        self._number = len(servers)
        self.url = ""
        self.swallow: Callable[[], bool] = lambda: False
        """Whether a reply that has come in full is dropped, and its connection cut."""

    async def handle(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            for _ in range(self._number):
                try:
                    server = await anyio.connect_tcp("127.0.0.1", next(self._next))
                    break
                except OSError:
                    continue
            else:
                return
            async with server, anyio.create_task_group() as tasks:
                tasks.start_soon(self._forth, client, server, tasks.cancel_scope)
                tasks.start_soon(self._back, server, client, tasks.cancel_scope)

    async def _forth(
        self, client: anyio.abc.SocketStream, server: anyio.abc.SocketStream, over: anyio.CancelScope
    ) -> None:
        try:
            async for chunk in client:
                await server.send(chunk)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        over.cancel()

    async def _back(
        self, server: anyio.abc.SocketStream, client: anyio.abc.SocketStream, over: anyio.CancelScope
    ) -> None:
        try:
            async for chunk in server:
                if self.swallow():
                    break
                await client.send(chunk)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        over.cancel()


@asynccontextmanager
async def balancing(*servers: Server) -> AsyncGenerator[Balancer]:
    """A balancer in front of these servers, until the block ends; connections are not kept."""
    balancer = Balancer(servers)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no database is near
    balancer.url = f"http://127.0.0.1:{port}/mcp"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, balancer.handle)
        yield balancer
        tasks.cancel_scope.cancel()
