"""A receiver of alerts: a small real HTTP server over loopback, which answers as the test says."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteStream, Listener, SocketAttribute
from anyio.streams.tls import TLSListener

BOUND_S = 20.0
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent in it."""
        event: dict[str, Any] = json.loads(self.body)
        return event


Answer = Callable[[Request, ByteStream], Awaitable[None]]


def status(line: str, *headers: str) -> Answer:
    """Answer with a status line and nothing else."""

    async def answer(_request: Request, stream: ByteStream) -> None:
        await stream.send("\r\n".join([f"HTTP/1.1 {line}", "content-length: 0", *headers, "", ""]).encode())

    return answer


@dataclass(eq=False)
class Receiver:
    """What came in, in the order of arrival, and how the next request is answered."""

    port: int
    scheme: str = "http"
    answer: Answer = field(default_factory=lambda: status("204 No Content"))
    requests: list[Request] = field(default_factory=list[Request])
    open: int = 0
    """Requests that are not answered yet."""
    most_open: int = 0
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook?token=s3cret"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [request.event for request in self.requests if request.method == "POST"]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Type and subject of what came in."""
        return [(event["type"].removeprefix("saga-mcp."), event["subject"]) for event in self.events]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once something holds, which is looked at whenever a request has come in."""
        with anyio.fail_after(BOUND_S):
            while not holds():
                self._changed = anyio.Event()
                await self._changed.wait()

    async def until_told(self, count: int) -> Sequence[dict[str, Any]]:
        """What came in, once it is so many."""
        await self.until(lambda: len(self.events) >= count)
        return self.events

    async def until_idle(self) -> None:
        """Return once no request is open."""
        with anyio.fail_after(BOUND_S):
            while self.open:  # noqa: ASYNC110 - also what ends by an error is looked at
                await anyio.sleep(0.01)

    async def handle(self, stream: ByteStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    await self._one(stream)

    async def _one(self, stream: ByteStream) -> None:
        request = await _read(stream)
        self.requests.append(request)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
        try:
            await self.answer(request, stream)
        finally:
            self.open -= 1


async def _read(stream: ByteReceiveStream) -> Request:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)


@asynccontextmanager
async def receiving(port: int = 0, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Receiver]:
    """Listen until the block ends; with `tls`, over HTTPS."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port, reuse_port=False)
    receiver = Receiver(
        listener.extra(SocketAttribute.local_port),  # noqa: S610 - not that `extra`
        "http" if tls is None else "https",
    )
    serving: Listener[Any] = listener if tls is None else TLSListener(listener, tls, standard_compatible=False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serving.serve, receiver.handle)
        try:
            yield receiver
        finally:
            tasks.cancel_scope.cancel()
    await listener.aclose()
