"""Notices a client that goes away before it has its reply (SEMANTICS.md S8.1).

In JSON mode the SDK does not look, and the call would be waited for on behalf of nobody. What is given up is the wait:
the work belongs to the engine (DESIGN.md rule 6).
"""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saga_mcp.edge.receipt import RECEIPT, WireReceipt


class Disconnects:
    """ASGI middleware: each request gets a receipt, which is told when the reply is out or nobody waits for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as long as somebody waits for it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send)
        scope[RECEIPT] = exchange.receipt
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.watch, tasks.cancel_scope)
            await self._app(scope, exchange.receive, exchange.send)
            tasks.cancel_scope.cancel()


class _Exchange:
    def __init__(self, receive: Receive, send: Send) -> None:
        self.receipt = WireReceipt()
        self._receive = receive
        self._send = send
        self._whole = anyio.Event()
        """The request's body has been read; from then on only the end of the connection comes in."""
        self._gone = anyio.Event()
        self._answering = False
        """The end of the reply is being written: what the connection does now tells nothing about it."""

    async def receive(self) -> Message:
        if self._whole.is_set():
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._gone.set()
        if not message.get("more_body", False):
            self._whole.set()
        return message

    async def send(self, message: Message) -> None:
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        self._answering = self._answering or last
        await self._send(message)
        if last:
            self.receipt.was_written()

    async def watch(self, waiting: anyio.CancelScope) -> None:
        await self._whole.wait()
        while not self._gone.is_set() and (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._answering:
            self._gone.set()
            self.receipt.was_lost()
            waiting.cancel()
