"""The two message streams between the client's descriptors and the SDK, and the requests not yet answered.

Apart from the serving of stdio because this is about bytes and back-pressure only. They are streams of our own, not the
SDK's pairs of memory streams with a pump beside each: a message then costs no task and no hop through a thread, which
was a fifth of a governed call.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import structlog
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from saga_mcp.edge.lines import Unreadable, read_line, write_line
from saga_mcp.edge.receipt import WireReceipt
from saga_mcp.edge.stdout import WireStreams
from saga_mcp.tools.streams import Incoming, Lines, SdkStream

_log = structlog.get_logger(__name__)

_MOST_BEHIND = 1_000
"""Refusals that may wait for a client that does not read; then we do not read either."""


_MAY_CROSS = 16
"""So many of the last replies may be crossed by a cancellation that the client sent before it read them."""


class Transport:
    """One client's messages."""

    def __init__(self, wire: WireStreams) -> None:
        self._unanswered: dict[types.RequestId, WireReceipt] = {}
        self._answered: dict[types.RequestId, WireReceipt] = {}
        """The last ones, in order."""
        self._settled = anyio.Event()
        self.ended = anyio.Event()
        """Nothing is taken any more: the client closed a stream, or we stop."""
        self.replies = Replies(wire, self)
        self.requests = Requests(wire, self)

    def arrived(self, message: types.JSONRPCMessage) -> types.JSONRPCError | None:
        """Take note of a message; what is answered in its stead, where it comes too late."""
        match message:
            case types.JSONRPCRequest(id=request_id) if self.ended.is_set():
                return _shutting_down(request_id)
            # A listening client never gets its answer, and would make every SIGTERM take the whole grace.
            case types.JSONRPCRequest(id=request_id, method=method) if method != "subscriptions/listen":
                self._unanswered[request_id] = WireReceipt()
            case types.JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                self._taken_back(request_id)
            case _:
                pass
        return None

    def with_receipt(self, message: types.JSONRPCMessage) -> SessionMessage:
        """The message, and with a request what becomes of its reply."""
        receipt = self._unanswered.get(message.id) if isinstance(message, types.JSONRPCRequest) else None
        return SessionMessage(message, None if receipt is None else ServerMessageMetadata(request_context=receipt))

    def left(self, message: types.JSONRPCMessage) -> None:
        """Take note of a message that was written."""
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError) or message.id is None:
            return
        receipt = self._unanswered.pop(message.id, None)
        if receipt is not None:
            receipt.was_written()
            self._answered[message.id] = receipt
            if len(self._answered) > _MAY_CROSS:
                del self._answered[next(iter(self._answered))]
            self._settled.set()

    def _taken_back(self, request_id: object) -> None:
        """A client that cancels does not look at a reply any more, be it on its way already (MCP, cancellation)."""
        if isinstance(request_id, int | str):
            receipt = self._unanswered.pop(request_id, None) or self._answered.pop(request_id, None)
            if receipt is not None:
                receipt.was_lost()
                self._settled.set()

    async def all_answered(self) -> None:
        """Wait until each request has been answered or cancelled."""
        while self._unanswered:
            self._settled = anyio.Event()
            await self._settled.wait()


class Requests(Incoming):
    """What the client sends, one message a line; the SDK's `ReadStream`."""

    def __init__(self, wire: WireStreams, transport: Transport) -> None:
        self._lines = Lines(_selected(wire) if wire.waits_to_read else _in_thread(wire))
        self._transport = transport

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message; lines that are none are answered here.

        Raises:
            EndOfStream: the client sends nothing more.
        """
        while (line := await self._lines.next()) is not None:
            message = read_line(line)
            if isinstance(message, Unreadable):
                _log.warning("message_refused", answered=len(message.replies))
                refusals = message.replies
            else:
                refusal = self._transport.arrived(message)
                if refusal is None:
                    return self._transport.with_receipt(message)
                refusals = (refusal,)
            for reply in refusals:
                with contextlib.suppress(anyio.BrokenResourceError):
                    await self._transport.replies.refuse(reply)
        raise anyio.EndOfStream


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is left to write of a message."""

    line: bytes
    message: types.JSONRPCMessage
    done: anyio.Event = field(default_factory=anyio.Event)


class Replies(SdkStream):
    """What the server sends, one message a line; the SDK's `WriteStream`.

    What fits is written at once. The rest of it goes through one task, so that a sender who is cancelled leaves no
    half a line behind, and a client that does not read holds up nobody but those who send to it.
    """

    def __init__(self, wire: WireStreams, transport: Transport) -> None:
        self._wire = wire
        self._transport = transport
        self._waiting, self._to_write = anyio.create_memory_object_stream[_Rest](math.inf)
        self._behind = 0
        """Lines that wait for the client to read."""
        self._gone = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message; returns once it is written.

        Raises:
            BrokenResourceError: the client closed its end.
        """
        rest = self._begin(item.message)
        if rest is not None:
            await self._written(rest)

    async def refuse(self, reply: types.JSONRPCError) -> None:
        """Write a reply without waiting for a client that does not read, unless too many wait for it already.

        Whoever reads the client's messages must not stop for that: it would not see the end of them.

        Raises:
            BrokenResourceError: the client closed its end.
        """
        rest = self._begin(reply)
        if rest is not None and self._behind > _MOST_BEHIND:
            await self._written(rest)

    def _begin(self, message: types.JSONRPCMessage) -> _Rest | None:
        """Write what fits; what is left is queued, and returned."""
        if self._gone:
            raise anyio.BrokenResourceError
        try:
            line = write_line(message)
        except ValueError:
            _log.exception("message_not_sent")
            return None
        try:
            written = 0 if self._behind else self._wire.write_now(line)
        except OSError:
            self._client_gone()
            raise anyio.BrokenResourceError from None
        if written == len(line):
            self._transport.left(message)
            return None
        rest = _Rest(line[written:], message)
        self._behind += 1
        self._waiting.send_nowait(rest)
        return rest

    async def _written(self, rest: _Rest) -> None:
        await rest.done.wait()
        if self._gone:
            raise anyio.BrokenResourceError

    async def write_waiting(self) -> None:
        """Write what could not be written at once, for as long as the client is there."""
        limiter = anyio.CapacityLimiter(1)  # its own: forty busy tool threads must not hold up the replies
        async for rest in self._to_write:
            try:
                if not self._gone:
                    await anyio.to_thread.run_sync(self._wire.write, rest.line, limiter=limiter)
                    self._transport.left(rest.message)
            except OSError:
                self._client_gone()
            self._behind -= 1
            rest.done.set()

    def _client_gone(self) -> None:
        _log.warning("client_gone")
        self._gone = True
        self._transport.ended.set()


def _selected(wire: WireStreams) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        while True:
            await anyio.wait_readable(wire.stdin_fd)
            if (chunk := wire.read_now()) is not None:
                return chunk

    return read


def _in_thread(wire: WireStreams) -> Callable[[], Awaitable[bytes]]:
    """Read in a daemon thread: a blocking read cannot be cancelled, and must not keep the process alive."""
    token = anyio.lowlevel.current_token()
    send, receive = anyio.create_memory_object_stream[bytes](0)  # a client that sends faster than we read has to wait

    def work() -> None:
        # Serving may end first: then nobody is left to hand anything to.
        with contextlib.suppress(
            anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.RunFinishedError, CancelledError
        ):
            while chunk := wire.read():
                anyio.from_thread.run(send.send, chunk, token=token)
            anyio.from_thread.run(send.send, b"", token=token)

    thread = threading.Thread(target=work, name="stdin", daemon=True)

    async def read() -> bytes:
        if not thread.ident:
            thread.start()
        return await receive.receive()

    return read


def _shutting_down(request_id: types.RequestId) -> types.JSONRPCError:
    error = types.ErrorData(code=types.CONNECTION_CLOSED, message="the server is shutting down; nothing was done")
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
