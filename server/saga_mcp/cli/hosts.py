"""What a command says and does of a saga whose next move is for another machine (SEMANTICS.md S1.3)."""

from __future__ import annotations

from typing import Final

import anyio

from saga_mcp.app import App
from saga_mcp.domain.hosts import awaited_hosts, host_name
from saga_mcp.domain.state import Saga

_STAYS_SO_S: Final = 3.0
_LOOKS_EVERY_S: Final = 0.2


def needed(saga: Saga, here: str) -> str:
    """Which machines have to go on, for people; empty: this one may."""
    return ", ".join(map(host_name, awaited_hosts(saga, here)))


def needs_words(saga: Saga, here: str) -> str:
    """The same with the next move; empty: nothing that is due is for another machine alone."""
    hosts = needed(saga, here)
    if not hosts:
        return ""
    return (
        f"Nothing is sent from here: what is next needs host {hosts}, where it was done. A server there goes on with "
        "it, or `saga-mcp recover` there."
    )


async def left_to_others(opened: App, saga_id: str) -> None:
    """Return when it has been so for a while that only other machines can go on with the saga."""
    since: float | None = None
    while True:
        waits = awaited_hosts(await opened.log.load(saga_id), opened.settings.host)
        now = anyio.current_time()
        since = (now if since is None else since) if waits else None
        if since is not None and now - since >= _STAYS_SO_S:
            return
        await anyio.sleep(_LOOKS_EVERY_S)
