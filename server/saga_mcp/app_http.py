"""A server over HTTP put together: a part of the composition root, imported only where many callers are served."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from saga_mcp.app import open_app
from saga_mcp.config import LoadedConfig
from saga_mcp.edge.changes import ListChanges
from saga_mcp.edge.http.door import security_of
from saga_mcp.edge.http.gate import Callers, Gate
from saga_mcp.edge.http.readiness import Readiness
from saga_mcp.edge.http.serving import Stopping, listen, serve_http
from saga_mcp.edge.http.web import PATH, manager_of, web_of
from saga_mcp.edge.server import build_server
from saga_mcp.tools.port import Catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpApp:
    """One process that serves over HTTP, put together."""

    url: str
    """Where it listens."""
    serve: Callable[[], Awaitable[None]]
    """Answers until a signal arrives."""


@contextlib.asynccontextmanager
async def open_http(
    loaded: LoadedConfig,
    host: str,
    port: int,
    *,
    around: Callable[[Catalogue], Catalogue] | None = None,
    notice: str = "",
) -> AsyncGenerator[HttpApp]:
    """Listen, and open all that it takes to answer, until the block ends.

    Args:
        loaded: The config.
        host: Where to listen.
        port: Likewise; 0: any that is free.
        around: Puts another catalogue around the real one.
        notice: What clients are told besides, before anything else.

    Raises:
        OSError: The address cannot be had.
        SagaError, LifespanFailed: As `open_app`.
    """
    settings, people = loaded.shared.http, loaded.shared.people
    with listen(host, port) as listening:
        port = listening.getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        public_url = settings.public_url or url
        oauth = people.oauth and replace(people.oauth, audience=people.oauth.audience or public_url)
        gate = Gate(people, oauth, public_url) if people.told_apart else None
        changes, stopping = ListChanges(), Stopping()
        async with open_app(loaded, tools_changed=changes.tell, around=around) as opened:
            callers = Callers(opened.engine, people)
            manager = manager_of(
                build_server(opened.engine, opened.catalogue, changes=changes, visitors=callers, notice=notice),
                settings,
            )
            web = web_of(
                manager,
                settings,
                security_of(settings, host, port),
                ready=Readiness(opened.engine, opened.log, loaded.settings.realm, stopping).trouble,
                guard=None if gate is None else gate.around,
                routes=() if gate is None else gate.routes,
            )
            serve = partial(
                serve_http,
                web,
                manager,
                listening,
                drain=opened.engine.drain,
                drain_s=settings.drain_s,
                stopping=stopping,
                end_streams=changes.listening.close,
            )
            yield HttpApp(url=url, serve=serve)
