"""Rows about a shared server: steps a second over HTTP, of many callers, with one to three servers on one saga log.

Everything runs on this machine: the servers, the database and who calls them share its cores. Calls of one saga go to
the next server each time, as a plain load balancer sends them.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
from tests.postgres.server import running

from benchmarks.rows import Row, percentile
from benchmarks.wire import REVISION, WentWrong, configure, governed, listening

_CALLERS: Mapping[int, int] = {1: 100, 16: 20, 64: 10, 256: 4}
"""How many call at once, and how many steps each of them does."""
_SERVERS = (1, 2, 3)
_WARM_UP = 10
_DURABLE = {"fsync": "on", "full_page_writes": "on"}
_NO_LIMITS = "\n[limits]\nopen_sagas = 0\nrunning_steps = 0\n"


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a number of callers met."""

    steps_a_second: float
    p99_ms: float


def load(folder: Path) -> Sequence[Row]:
    """Each number of callers on each number of servers, over PostgreSQL; and on one server over SQLite."""
    sqlite = folder / "sqlite"
    sqlite.mkdir()
    with _served(sqlite, 1, "sqlite:///saga.db") as urls:
        beside = {callers: anyio.run(_measured, urls, callers, steps) for callers, steps in _CALLERS.items()}
    rows = [
        Row(what=f"{callers} callers, SQLite, 1 server", subject=each.steps_a_second, unit="steps/s")
        for callers, each in beside.items()
    ]
    rows += [
        Row(what=f"{callers} callers, SQLite, 1 server, p99", subject=each.p99_ms, unit="ms")
        for callers, each in beside.items()
    ]
    with running(_DURABLE) as postgres:
        for servers in _SERVERS:
            postgres.sql(f"CREATE DATABASE load{servers}")
            own = folder / f"postgres{servers}"
            own.mkdir()
            with _served(own, servers, postgres.url(f"load{servers}")) as urls:
                for callers, steps in _CALLERS.items():
                    rows += _rows(anyio.run(_measured, urls, callers, steps), beside[callers], callers, servers)
    return rows


def _rows(measured: _Measured, beside: _Measured, callers: int, servers: int) -> Sequence[Row]:
    what = f"{callers} callers, PostgreSQL, {servers} server{'s' if servers > 1 else ''}"
    is_one = "1 server, SQLite"
    return [
        Row(
            what=what,
            subject=measured.steps_a_second,
            unit="steps/s",
            baseline=beside.steps_a_second,
            baseline_is=is_one,
        ),
        Row(what=f"{what}, p99", subject=measured.p99_ms, unit="ms", baseline=beside.p99_ms, baseline_is=is_one),
    ]


@contextmanager
def _served(folder: Path, servers: int, database: str) -> Generator[Sequence[str]]:
    config = configure(folder)
    text = config.read_text(encoding="utf-8").replace("sqlite:///saga.db", database)
    config.write_text(text + _NO_LIMITS, encoding="utf-8")
    command = [*governed(config), "--http", "127.0.0.1:0"]
    with ExitStack() as stack:
        yield [stack.enter_context(listening(command)) for _ in range(servers)]


class _Connection:
    """One connection to one server that costs as little as it can."""

    def __init__(self, url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = urlsplit(url).netloc
        self._reader = reader
        self._writer = writer
        self._ids = count(1)

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool that has to succeed."""
        params = {"name": tool, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params}
        body = json.dumps(request).encode()
        self._writer.write(
            f"POST /mcp HTTP/1.1\r\nHost: {self._host}\r\nAccept: application/json, text/event-stream\r\n"
            f"Content-Type: application/json\r\nMCP-Protocol-Version: {REVISION}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        reply = json.loads(await self._reader.readexactly(length))
        if "result" not in reply or reply["result"].get("isError"):
            raise WentWrong(f"{tool}: {reply}")
        return cast("dict[str, Any]", reply["result"])


@asynccontextmanager
async def _connected(urls: Sequence[str]) -> AsyncGenerator[Sequence[_Connection]]:
    connections: list[_Connection] = []
    writers: list[asyncio.StreamWriter] = []
    try:
        for url in urls:
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            writers.append(writer)
            connections.append(_Connection(url, reader, writer))
        yield connections
    finally:
        for writer in writers:
            writer.close()


async def _measured(urls: Sequence[str], callers: int, steps: int) -> _Measured:
    async with _connected(urls) as first:
        for server in first:
            saga_id = await _begin(server)
            for number in range(_WARM_UP):
                await server.call("record", name=f"warm {number}", amount=number, saga_id=saga_id)
    took_s: list[float] = []
    ready, go, began = 0, anyio.Event(), 0.0
    done_at: list[float] = []

    async def caller(number: int) -> None:
        nonlocal ready
        async with _connected(urls) as servers:
            turns = cycle(servers)
            saga_id = await _begin(next(turns))
            ready += 1
            await go.wait()
            for step in range(steps):
                sent = time.perf_counter()
                await next(turns).call("record", name=f"entry {number}.{step}", amount=step, saga_id=saga_id)
                took_s.append(time.perf_counter() - sent)
            done_at.append(time.perf_counter())
            await next(turns).call("saga_commit", saga_id=saga_id)

    async with anyio.create_task_group() as tasks:
        for number in range(callers):
            tasks.start_soon(caller, number)
        while ready < callers:  # noqa: ASYNC110 - once for a measurement
            await anyio.sleep(0.01)
        began = time.perf_counter()
        go.set()
    elapsed_s = max(done_at) - began
    p99_s = percentile(took_s, 99) if len(took_s) > 1 else statistics.median(took_s)
    return _Measured(callers * steps / elapsed_s, p99_s * 1000)


async def _begin(server: _Connection) -> str:
    return cast("str", (await server.call("saga_begin"))["_meta"]["saga"]["id"])
