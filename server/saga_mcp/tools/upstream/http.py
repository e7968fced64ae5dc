"""The way to an upstream over streamable HTTP, where one call's trouble stays that call's.

The SDK's client ends the whole connection, and with it every other call in flight, where one request cannot connect or
its answer breaks off; and to whoever waits it makes an error of the protocol out of whatever came in place of an answer
(measured on mcp 2.3.0). Here each such request gets an error of its own, and its call is told what that error is not:
the upstream's answer. Codes on the wire say nothing of it, for they are the upstream's to choose.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus

import httpx2
import mcp_types as types
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from pydantic import ValidationError

from saga_mcp.tools.upstream.declared import Endpoint
from saga_mcp.tools.upstream.tap import Sending, Tap

_CONNECT_WITHIN_S = 30.0
_REFUSED = frozenset({401, 403, 405, 413, 415, 429})
"""Statuses of a request that was turned away at the door."""
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})


@contextlib.asynccontextmanager
async def reached(endpoint: Endpoint) -> AsyncGenerator[Tap]:
    """Open the way; whether anybody is there, the first request finds out.

    An answer is waited for without a limit of time: whoever asked has one (S3.3).
    """
    unlimited = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        httpx2.AsyncClient(limits=unlimited) as inner,
        httpx2.AsyncClient(
            headers=dict(endpoint.headers),
            timeout=httpx2.Timeout(_CONNECT_WITHIN_S, read=None),
            transport=(contained := _Contained(inner)),
        ) as client,
        streamable_http_client(endpoint.url, http_client=client, max_sse_event_size=None) as (read, write),
    ):
        contained.tap = Tap(read, write)
        yield contained.tap


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request of MCP that waits for an answer."""

    id: types.RequestId
    call: Sending | None
    """The call of a tool that it is."""


class _Contained(httpx2.AsyncBaseTransport):
    """Answers a request itself where the network, or a server's door, gives no answer of MCP."""

    def __init__(self, inner: httpx2.AsyncClient) -> None:
        self._inner = inner  # a client and not its transport: it goes through the proxies of the environment
        self.tap: Tap | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = self._asked(request)
        call = asked.call if asked else None
        if call is not None:
            call.unanswered = ""  # it was redirected
        try:
            return await self._answer(request, asked)
        except _UNREACHED as error:
            return self._turned_away(call, f"it cannot be reached: {type(error).__name__}", leave=True)
        except httpx2.TransportError as error:
            return _unanswered(call, f"the connection broke: {type(error).__name__}")

    async def _answer(self, request: httpx2.Request, asked: _Asked | None) -> httpx2.Response:
        """The response, or an error where it is no answer of the upstream."""
        response = await self._inner.send(request, stream=True, follow_redirects=False)
        status, call = response.status_code, asked.call if asked else None
        streamed = response.is_success and _is(response, "text/event-stream")
        if asked and not streamed and _is(response, "application/json"):
            body = await _body(response)
            headers = [each for each in response.headers.multi_items() if each[0].lower() not in _OF_THE_BODY]
            response = httpx2.Response(status, headers=headers, content=body)
            if _is_answer(status, body, asked.id):
                return response
        # With a session, 404 says that the server does not know it any more: it has been started anew.
        no_session = status == HTTPStatus.NOT_FOUND and MCP_SESSION_ID in request.headers
        if status in _REFUSED or no_session:
            await response.aclose()
            renew = ": renew the token" if status == HTTPStatus.UNAUTHORIZED else ""
            return self._turned_away(call, f"it turned the request away: HTTP {status}{renew}", leave=no_session)
        if call is not None:
            call.streamed = streamed
            if not streamed:
                error = _unanswered(call, f"HTTP {status} in place of an answer")
                if not response.has_redirect_location:  # else it may be followed
                    await response.aclose()
                    return error
        if isinstance(response.stream, httpx2.AsyncByteStream) and not response.is_closed:
            response.stream = _UpToTheBreak(response.stream)
        return response

    def _asked(self, request: httpx2.Request) -> _Asked | None:
        if request.method != "POST":
            return None
        message = _message(request.content)
        if not isinstance(message, types.JSONRPCRequest):
            return None
        return _Asked(message.id, self.tap.calls.get(message.id) if self.tap else None)

    def _turned_away(self, call: Sending | None, why: str, *, leave: bool) -> httpx2.Response:
        """Nothing of the request was looked at. Where it is to be left, calls go over a new connection from now on."""
        if call is not None:
            call.turned_away = why
            if leave and self.tap is not None:
                self.tap.left.set()
        return _error(why)


def _unanswered(call: Sending | None, why: str) -> httpx2.Response:
    """Whatever came, nobody knows what the upstream does."""
    if call is not None:
        call.unanswered = why
    return _error(why)


def _is(response: httpx2.Response, kind: str) -> bool:
    return response.headers.get("content-type", "").lower().startswith(kind)


async def _body(response: httpx2.Response) -> bytes:
    try:
        return await response.aread()
    finally:
        await response.aclose()


def _message(body: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValidationError:
        return None


def _is_answer(status: int, body: bytes, asked: types.RequestId) -> bool:
    """Whether the upstream itself wrote this, about that request."""
    message = _message(body)
    if status < HTTPStatus.BAD_REQUEST:
        return isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id == asked
    # One without an id was written before the request was read: by an upstream, if it says what is wrong with it.
    ids = {asked, None} if status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _REFUSED else {asked}
    return isinstance(message, types.JSONRPCError) and message.id in ids


class _UpToTheBreak(httpx2.AsyncByteStream):
    """A body that ends where its connection broke: what is missing, its reader notices."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with contextlib.suppress(httpx2.TransportError):
            async for chunk in self._inner:
                yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _error(message: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": types.CONNECTION_CLOSED, "message": message}}
    return httpx2.Response(
        HTTPStatus.SERVICE_UNAVAILABLE, headers={"content-type": "application/json"}, content=json.dumps(body)
    )
