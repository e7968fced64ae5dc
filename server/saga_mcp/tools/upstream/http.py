"""The way to an upstream over streamable HTTP, where one call's trouble stays that call's.

The SDK's client ends the whole connection, and with it every other call in flight, where one request cannot connect or
its answer breaks off (measured on mcp 2.3.0). Here each such request gets an error of its own, which also says whether
anything was sent.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from http import HTTPStatus

import httpx2
import mcp_types as types
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from saga_mcp.tools.upstream.declared import Endpoint
from saga_mcp.tools.upstream.tap import Tap

NOT_SENT = -32099
"""Our code for a request that the server did not take; from the range that JSON-RPC leaves to implementations."""

_CONNECT_WITHIN_S = 30.0
_REFUSED = frozenset({401, 403, 405, 413, 415, 429})
"""Statuses of a request that was turned away at the door."""
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


@contextlib.asynccontextmanager
async def reached(endpoint: Endpoint) -> AsyncGenerator[Tap]:
    """Open the way; whether anybody is there, the first request finds out.

    An answer is waited for without a limit of time: whoever asked has one (S3.3).
    """
    unlimited = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        httpx2.AsyncClient(
            headers=dict(endpoint.headers),
            timeout=httpx2.Timeout(_CONNECT_WITHIN_S, read=None),
            transport=_Contained(httpx2.AsyncHTTPTransport(limits=unlimited)),
        ) as client,
        streamable_http_client(endpoint.url, http_client=client, max_sse_event_size=None) as (read, write),
    ):
        yield Tap(read, write)


class _Contained(httpx2.AsyncBaseTransport):
    """Answers a request itself where the network, or a server's door, gives no answer of MCP."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except _UNREACHED as error:
            return _error(NOT_SENT, f"it cannot be reached: {type(error).__name__}")
        except httpx2.TransportError as error:
            return _error(types.CONNECTION_CLOSED, f"the connection broke: {type(error).__name__}")
        if _turned_away(request, response):
            await response.aclose()
            return _error(NOT_SENT, f"it turned the request away: HTTP {response.status_code}")
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - of an asynchronous transport
        response.stream = _UpToTheBreak(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _turned_away(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether the server did not look at the request, and said no more than that."""
    # With a session, 404 says that the server does not know it any more: it has been started anew.
    no_session = response.status_code == HTTPStatus.NOT_FOUND and MCP_SESSION_ID in request.headers
    says_more = response.headers.get("content-type", "").startswith("application/json")
    return (response.status_code in _REFUSED or no_session) and not says_more


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


def _error(code: int, message: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(
        HTTPStatus.SERVICE_UNAVAILABLE, headers={"content-type": "application/json"}, content=json.dumps(body)
    )
