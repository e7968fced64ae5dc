"""A tap on the messages between the SDK's client and an upstream, which knows what became of each call of a tool.

The SDK's client holds an answer to what its protocol revision and the tool's schema promise, and raises where it does
not fit; and it tells the server to stop when a caller stops waiting. For a call that has had its effect both are wrong:
its answer is taken here as it came, and only what is safe to stop is stopped. What an upstream asks of its client is
declined here, because a step may run where nobody can answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

import anyio
import mcp_types as types
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.streams import Incoming, SdkStream


@dataclass(slots=True, eq=False)
class Sending:
    """One call of a tool on its way."""

    may_stop: bool
    """Whether the upstream is told when nobody waits any more."""
    sent: bool = False
    """At least a part of it may have reached the upstream."""
    answered: bool = False
    """The upstream answered it, with a result or an error."""
    result: JsonObject | None = None
    """The result, as it came."""
    turned_away: str = ""
    """Why nothing of it was looked at; what the client gets then was not written by the upstream."""
    unanswered: str = ""
    """What came in place of an answer; likewise."""
    streamed: bool = False
    """Its answer comes in a stream, of whose breaking off the client makes an error."""


_QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_DECLINED = "saga-mcp does not pass on what servers ask of their clients"

_SENDING: ContextVar[Sending | None] = ContextVar("saga_upstream_sending", default=None)

_SEEN: dict[str, object] = {"resultType": "complete", "content": [], "isError": True}
"""What the client gets in place of a result: it fits every revision, and no schema."""


@contextlib.contextmanager
def sending(call: Sending) -> Generator[None]:
    """Let what is sent inside the block count as `call`."""
    token = _SENDING.set(call)
    try:
        yield
    finally:
        _SENDING.reset(token)


class Tap:
    """The two streams of one connection, tapped."""

    def __init__(self, read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage]) -> None:
        self.calls: dict[types.RequestId, Sending] = {}
        self.ended = anyio.Event()
        """The upstream says nothing more."""
        self.left = anyio.Event()
        """Calls are to go over another connection from now on; those under way still get their answers here."""
        self.read = _TappedRead(read, self)
        self.write = _TappedWrite(write, self)


class _TappedRead(Incoming):
    def __init__(self, inner: ReadStream[SessionMessage | Exception], tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._inner.receive()
            except anyio.EndOfStream:
                self._tap.ended.set()
                raise
            if isinstance(item, Exception):
                return item
            match item.message:
                case types.JSONRPCRequest(method=method, id=request_id) if method in _QUESTIONS:
                    await self._tap.write.decline(method, request_id)
                case _:
                    return self._taken(item)

    def _taken(self, item: SessionMessage) -> SessionMessage:
        message = item.message
        match message:
            case types.JSONRPCResponse(id=request_id) if call := self._tap.calls.pop(request_id, None):
                call.answered = True
                call.result = cast("JsonObject", message.result)
                seen = types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=_SEEN)
                return SessionMessage(seen, metadata=item.metadata)
            case types.JSONRPCError(id=request_id) if request_id is not None:
                if call := self._tap.calls.pop(request_id, None):
                    call.answered = True
            case _:
                pass
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()


class _TappedWrite(SdkStream):
    def __init__(self, inner: WriteStream[SessionMessage], tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        call = _SENDING.get()
        match message:
            case types.JSONRPCRequest(method="tools/call", id=request_id) if call is not None:
                self._tap.calls[request_id] = call
                call.sent = True
                try:
                    await self._inner.send(item)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    call.sent = False  # the streams below say this only before they take anything
                    raise
            case types.JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                given_up = self._tap.calls.pop(cast("types.RequestId", request_id), None)
                if given_up is None or given_up.may_stop:
                    await self._inner.send(item)
            case _:
                await self._inner.send(item)

    async def decline(self, method: str, request_id: types.RequestId) -> None:
        """Say that a question of the upstream is not passed on."""
        error = types.ErrorData(code=types.METHOD_NOT_FOUND, message=f"{_DECLINED} ({method})")
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # then nobody waits for it
            await self._inner.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    async def aclose(self) -> None:
        await self._inner.aclose()
