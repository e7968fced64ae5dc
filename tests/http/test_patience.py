"""A connection whose client does not get on with its request is closed, and others are served meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import ClassVar

import anyio
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.types import Receive, Scope, Send

from saga_mcp.edge.http.patience import PatientProtocol
from saga_mcp.edge.http.serving import listen

BOUND_S = 20.0


class Hasty(PatientProtocol):
    head_s: ClassVar[float] = 0.3
    body_s: ClassVar[float] = 0.3


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what was sent, once all of it is there."""
    assert scope["type"] == "http"
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    config = uvicorn.Config(echo, http=Hasty, lifespan="off", log_config=None, timeout_keep_alive=60)
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            yield listening.getsockname()[1]
            server.should_exit = server.force_exit = True


async def ended(stream: SocketStream) -> bytes:
    """What still comes until the server closes the connection."""
    found = b""
    with anyio.fail_after(BOUND_S), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            found += await stream.receive()
    return found


async def answered(stream: SocketStream, what: bytes) -> None:
    found = b""
    with anyio.fail_after(BOUND_S):
        while not found.endswith(what):
            found += await stream.receive()
    assert found.startswith(b"HTTP/1.1 200")


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"


@pytest.mark.parametrize("said", [b"", b"POST / HT", HEAD[:-2], HEAD, HEAD + b"ab"])
async def test_half_a_request_is_not_waited_for_without_end(port: int, said: bytes) -> None:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        if said:
            await stream.send(said)
        assert b"200" not in await ended(stream)


async def test_a_head_that_drips_is_not_waited_for_without_end(port: int) -> None:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(HEAD[:-2])
        with anyio.fail_after(BOUND_S), contextlib.suppress(anyio.BrokenResourceError):
            while True:
                await stream.send(b"X: y\r\n")
                await anyio.sleep(0.05)


async def test_a_body_that_comes_on_and_a_connection_that_is_used_again_are_kept(port: int) -> None:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(HEAD)
        for piece in (b"a", b"b", b"c"):
            await stream.send(piece)
            await anyio.sleep(0.2)  # all of it takes longer than a piece may
        await stream.send(b"d")
        await answered(stream, b"abcd")
        await anyio.sleep(0.5)  # longer than a request may take: none has begun
        await stream.send(HEAD + b"efgh")
        await answered(stream, b"efgh")
        await stream.send(HEAD[:10])
        assert await ended(stream) == b""
