"""The ASGI application: the MCP endpoint behind its checks, where its authorisation is described, and its health.

The protocol is the SDK's, without sessions: whatever a call needs is in the request or in the saga log, so any process
of the realm can answer it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from saga_mcp.edge.http.disconnects import Disconnects
from saga_mcp.edge.http.door import Doorstep, pattern_of
from saga_mcp.edge.http.settings import HttpSettings

PATH: Final = "/mcp"

Ready = Callable[[], Awaitable[str]]
"""Why no calls should be sent here; empty: they can be."""

Guard = Callable[[ASGIApp], ASGIApp]
"""Puts what checks a caller's token around the endpoint."""


def manager_of(server: Server[Any], settings: HttpSettings) -> StreamableHTTPSessionManager:
    """What runs the protocol; its `run()` has to be entered around all requests."""
    return StreamableHTTPSessionManager(
        server,
        json_response=settings.json_replies,
        stateless=True,
        max_request_body_size=settings.max_body_bytes,
    )


def web_of(
    manager: StreamableHTTPSessionManager,
    settings: HttpSettings,
    security: TransportSecuritySettings,
    *,
    ready: Ready,
    guard: Guard | None = None,
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """The application.

    Args:
        manager: runs the protocol.
        settings: how it is reached.
        security: which `Host` and `Origin` headers are let in.
        ready: what `/readyz` asks.
        guard: checks callers; None: whoever reaches it is the one user.
        routes: where its authorisation is described.
    """
    endpoint: ASGIApp = Disconnects(_OnlyPost(StreamableHTTPASGIApp(manager)))
    if guard is not None:
        endpoint = guard(endpoint)
    if settings.allowed_origins:
        endpoint = CORSMiddleware(
            endpoint,
            allow_origin_regex=pattern_of(settings.allowed_origins),
            allow_methods=["POST"],
            allow_headers=["*"],
            expose_headers=["WWW-Authenticate"],
        )
    endpoint = Doorstep(endpoint, security)

    async def is_ready(_: Request) -> Response:
        reason = await ready()
        if reason:
            return JSONResponse({"status": "not ready", "reason": reason}, status_code=HTTPStatus.SERVICE_UNAVAILABLE)
        return JSONResponse({"status": "ready"})

    web = Starlette(
        routes=[
            Route(PATH, endpoint=endpoint),
            Route(f"{PATH}/", endpoint=endpoint),  # so that nobody is sent elsewhere, with their token
            Route("/healthz", endpoint=_is_alive, methods=["GET"]),
            Route("/readyz", endpoint=is_ready, methods=["GET"]),
            *routes,
        ]
    )
    web.router.redirect_slashes = False
    return web


async def _is_alive(_: Request) -> Response:
    return JSONResponse({"status": "alive"})


class _OnlyPost:
    """Refuses what only sessions need, as the protocol says: no stream of the server's own, nothing to delete."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = scope["method"] == "POST"
        answer = (
            self._app if allowed else Response(status_code=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
        )
        await answer(scope, receive, send)
