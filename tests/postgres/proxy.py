"""A TCP proxy between a process and a server: it can cut, delay, swallow and half-close what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from saga_mcp.log.place import ServerPlace

READY = b"Z\x00\x00\x00\x05"
"""How the message begins with which a server ends each of its answers."""
_TLS_REQUEST_BYTES = 8
Watch = Callable[[bytes], None]
"""Is shown what a client sends, before it is passed on."""


class Proxy:
    """What is between."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.refuses = False
        """New connections are ended at once."""
        self.delay_s = 0.0
        self.swallows = False
        """Nothing goes through any more, in either direction, and nobody is told."""
        self.swallows_answers = False
        self.answers: int | None = None
        """How many times a server says to a new client that it is ready, the login included; then nothing comes."""
        self.on_send: Watch | None = None
        self.tls: ssl.SSLContext | None = None
        """Speaks TLS with clients, as a server with `ssl = on` does."""

    def cut(self) -> None:
        """End every connection, as a broken network does: both ends are told."""
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()

    def half_close(self) -> None:
        """Say to every server that its client has no more to say, and nothing to the clients."""
        for _, server in self._pairs:
            with contextlib.suppress(OSError, RuntimeError):
                server.write_eof()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self.refuses:
                await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two is gone
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.tls is not None:
            await reader.readexactly(_TLS_REQUEST_BYTES)
            writer.write(b"S")
            await writer.start_tls(self.tls)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        pair = (writer, to_server)
        self._pairs.add(pair)
        try:
            ends = [asyncio.ensure_future(self._pass(reader, to_server, asks=True))]
            ends.append(asyncio.ensure_future(self._pass(from_server, writer, asks=False)))
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        finally:
            self._pairs.discard(pair)
            to_server.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asks: bool) -> None:
        left = None if asks else self.answers
        while data := await reader.read(65536):
            if asks and self.on_send is not None:
                self.on_send(data)
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.swallows or (self.swallows_answers and not asks):
                continue
            if left is not None:
                if left <= 0:
                    continue
                left -= data.count(READY)
            writer.write(data)
            await writer.drain()

    async def end(self) -> None:
        self.cut()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxied(place: ServerPlace, port: int) -> AsyncGenerator[tuple[Proxy, ServerPlace]]:
    """A proxy before the server on `port`, and the same log as it is reached through it."""
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        url = place.url.replace(f":{port}/", f":{proxy.port}/")
        yield proxy, ServerPlace(url=url, name=place.name, beside=place.beside)
    finally:
        server.close()
        await proxy.end()
