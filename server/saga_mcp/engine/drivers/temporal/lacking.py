"""What a worker lacks, looked for when it starts: better than to find out in the middle of a rollback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import structlog

from saga_mcp.domain.errors import LogError, SagaNotFound
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import PartAction
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)

_SAGAS_AT_MOST: Final = 1000
"""Of the newest open ones: that is enough to see what a config lacks."""


async def tell_what_is_missing(shop: Workshop) -> None:
    """Say in the log which tools of open sagas this process has not got; it leaves those sagas to others."""
    try:
        missing = await missing_tools(shop)
    except LogError as error:
        _log.warning("log_unavailable", reason=str(error))
        return
    if missing:
        _log.warning("tools_missing", realm=shop.settings.realm, sagas_by_tool=dict(missing))


async def missing_tools(shop: Workshop) -> Mapping[str, int]:
    """Tools that the undo of an open saga would need, and that this process has not got; with how many sagas."""
    found = Counter[str]()
    for row in await shop.log.sagas(shop.settings.realm, open_only=True, limit=_SAGAS_AT_MOST):
        try:
            saga = await shop.log.load(row.id)
        except (LogError, SagaNotFound):
            continue  # whoever drives it says so
        found.update({tool for tool in _needed(saga) if not _has(shop, tool)})
    return found


def _needed(saga: Saga) -> Iterator[str]:
    for step in saga.steps:
        if not step.settled:
            yield step.tool
        yield from (part.spec.tool for part in step.parts or () if part.spec.action is PartAction.CALL)


def _has(shop: Workshop, tool: str) -> bool:
    return shop.catalogue.tool(tool) is not None or shop.catalogue.undoer(tool) is not None
