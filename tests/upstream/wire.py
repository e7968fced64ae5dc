"""A wire to a server on this machine that a test can cut: the server goes on, and its answer has no way back."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream


@dataclass
class Wire:
    """Passes on what comes in at its own port."""

    port: int = 0
    scopes: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])

    def cut(self) -> None:
        """Break every connection; new ones can be made."""
        for scope in self.scopes:
            scope.cancel()


@asynccontextmanager
async def wired(port: int) -> AsyncGenerator[Wire]:
    """A wire to that port, until the block ends."""
    wire = Wire()

    async def passed_on(near: SocketStream) -> None:
        async with near, await anyio.connect_tcp("127.0.0.1", port) as far, anyio.create_task_group() as tasks:
            wire.scopes.add(tasks.cancel_scope)
            tasks.start_soon(_copy, near, far, tasks.cancel_scope)
            await _copy(far, near, tasks.cancel_scope)
            wire.scopes.discard(tasks.cancel_scope)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        wire.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio, not of Django
        tasks.start_soon(listener.serve, passed_on)
        yield wire
        tasks.cancel_scope.cancel()


async def _copy(source: SocketStream, sink: SocketStream, whole: anyio.CancelScope) -> None:
    try:
        async for chunk in source:
            await sink.send(chunk)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    whole.cancel()
