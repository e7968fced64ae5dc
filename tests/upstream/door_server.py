"""The ledger over HTTP, behind a door that answers calls of `add` itself: their `item` says how, by an HTTP status.

What comes of them behind it: a refusal and a `lost` session reach nothing; `202` and statuses of gateways are said at
once of calls that go on behind them; `own_code` has its effect, and an error of JSON-RPC from the reserved range;
`malformed` has it too, and a result that is none. While `.shut` is beside the ledger's file, `remove` is not let in.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

import uvicorn
from starlette.types import Message, Receive, Scope, Send
from tests.upstream.ledger_server import WIRE, served, switched, write

OAUTH = b'{"error": "invalid_token", "error_description": "Authentication required"}'
BODIES = {401: (b"application/json", OAUTH), 202: (b"application/json", b"")}
GOES_ON = {202, 500, 502, 504}


class Door:
    """In front of the application."""

    def __init__(self) -> None:
        self.app = served().streamable_http_app(stateless_http=True)
        self.behind: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        asked = json.loads(body)
        team = dict(scope["headers"]).get(b"x-team", b"").decode()
        write("asked", method=asked.get("method"), team=team)
        if asked.get("method") == "server/discover":
            await _answer(send, 400, b"text/plain", b"what is that?")
        elif asked.get("method") == "tools/call" and asked["params"]["name"] == "add":
            await self._call(asked, scope, _once(body, receive), send)
        elif asked.get("method") == "tools/call" and asked["params"]["name"] == "remove" and switched("shut"):
            write("turned away")
            await _answer(send, 401, *BODIES[401])
        elif asked.get("method") == "initialize":
            write("called", tool="initialize")
            await self.app(scope, _once(body, receive), _in_session(send))
        else:
            await self.app(scope, _once(body, receive), send)

    async def _call(self, asked: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> None:
        item = str(asked["params"]["arguments"]["item"])
        if item == "own_code":
            write("add", id=7, item=item)
            error = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32099, "message": "the index is not"}}
            await _answer(send, 200, b"application/json", json.dumps(error).encode())
        elif item == "malformed":
            write("add", id=7, item=item)
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"content": "nope"}}
            await _answer(send, 200, b"application/json", json.dumps(answer).encode())
        elif item == "lost":
            await _answer(send, 404, b"text/plain", b"no such session")
        elif item.isdecimal():
            if int(item) in GOES_ON:
                task = asyncio.create_task(self.app(scope, receive, _nowhere))
                self.behind.add(task)
            kind, body = BODIES.get(int(item), (b"text/html", b"<html></html>"))
            await _answer(send, int(item), kind, body)
        else:
            await self.app(scope, receive, send)


def _once(body: bytes, receive: Receive) -> Receive:
    given = [body]

    async def again() -> Message:
        if given:
            return {"type": "http.request", "body": given.pop(), "more_body": False}
        return await receive()

    return again


def _in_session(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"mcp-session-id", b"one")]
        await send(message)

    return sent


async def _nowhere(_message: Message) -> None:
    pass


async def _answer(send: Send, status: int, kind: bytes, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    write("started")
    with socket.create_server(("127.0.0.1", int(os.environ["LEDGER_PORT"]))) as listening:
        os.write(WIRE, b"%d\n" % listening.getsockname()[1])
        uvicorn.Server(uvicorn.Config(Door(), log_level="warning")).run([listening])
