"""A pooler that lends a server's connections for single transactions, as PgBouncer does in `pool_mode = transaction`.

As simple as it can be: a client is let in at once, and gets a connection of the pool with the first message of a
transaction until the server says that it is idle again. Which one it gets changes from one to the next.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_ASKS_FOR_TLS = 80877103
_CANCELS = 80877102


class _Connection:
    """One of the pool, past its start-up."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer


class Pooler:
    """Clients on one side, a few connections on the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: deque[_Connection] = deque()
        self._greeting = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self._all: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._all.append(writer)
        try:
            await self._client(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await _first(reader)
        if struct.unpack("!i", startup[4:8])[0] == _ASKS_FOR_TLS:
            writer.write(b"N")
            startup = await _first(reader)
        if struct.unpack("!i", startup[4:8])[0] == _CANCELS:
            return
        if not self._free:
            self._free.append(await self._connect(startup))
        # A key of its own making: a client cannot know which connections it will get.
        writer.write(self._greeting + b"K" + struct.pack("!i", 12) + os.urandom(8) + b"Z\0\0\0\5I")
        said: asyncio.Queue[bytes] = asyncio.Queue()
        hearing = asyncio.ensure_future(_hear(reader, said))
        try:
            while (message := await said.get()) and message[:1] != b"X":
                lent = self._free.pop() if len(self._free) > 1 else await self._connect(startup)
                try:
                    await _transaction(message, said, writer, lent)
                except BaseException:
                    lent.writer.transport.abort()
                    raise
                self._free.appendleft(lent)
        finally:
            hearing.cancel()

    async def _connect(self, startup: bytes) -> _Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._all.append(writer)
        writer.write(startup)
        greeting = b""
        while True:
            message = await _message(reader)
            if message[:1] == b"Z":
                self._greeting = greeting
                return _Connection(reader, writer)
            if message[:1] != b"K":
                greeting += message

    async def end(self) -> None:
        for writer in self._all:
            writer.transport.abort()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _hear(reader: asyncio.StreamReader, said: asyncio.Queue[bytes]) -> None:
    try:
        while True:
            said.put_nowait(await _message(reader))
    except (asyncio.IncompleteReadError, OSError):
        said.put_nowait(b"")


async def _transaction(
    message: bytes, said: asyncio.Queue[bytes], writer: asyncio.StreamWriter, lent: _Connection
) -> None:
    """Pass on what both say until the server is idle again."""

    async def pass_on() -> None:
        while another := await said.get():
            lent.writer.write(another)
        raise ConnectionResetError  # the client is gone

    lent.writer.write(message)
    passing = asyncio.ensure_future(pass_on())
    try:
        while True:
            reading = asyncio.ensure_future(_message(lent.reader))
            await asyncio.wait([reading, passing], return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                reading.cancel()
                await passing
            answer = await reading
            writer.write(answer)
            if answer[:1] == b"Z" and answer[5:6] == b"I":
                return
    finally:
        passing.cancel()


async def _first(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(struct.unpack("!i", size)[0] - 4)


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


@asynccontextmanager
async def pooled(port: int) -> AsyncGenerator[int]:
    """The port of a pooler before the server on `port`."""
    pooler = Pooler(port)
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await pooler.end()
