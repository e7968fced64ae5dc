"""Waiting for a saga's rest on behalf of a request: bounded, and the rollback goes on without it (DESIGN.md rule 6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

import anyio
import structlog

from saga_mcp.domain.errors import DriverUnavailable, LogError, LogUnavailable
from saga_mcp.domain.state import Saga
from saga_mcp.engine.port import SagaDriver
from saga_mcp.engine.supervise import wait_for
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)

OnProgress: TypeAlias = Callable[[Saga], Awaitable[None]]
"""Is told the state while it is waited for."""

_TOLD_EVERY_S = 1.0


async def settled(
    saga: Saga, deadline: float, shop: Workshop, driver: SagaDriver, on_progress: OnProgress | None = None
) -> Saga:
    """The state at rest, or at the deadline; `saga` as it was where the log cannot be read any more."""
    rested = anyio.Event()

    async def watch() -> None:
        with suppress(LogError, DriverUnavailable):  # the last look below meets it again
            await driver.rest(saga.id)
        rested.set()

    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        if on_progress is not None:
            watching.start_soon(_tell, saga.id, shop, on_progress)
        await wait_for(rested, max(0.0, deadline - shop.clock.now()), shop.clock)
        watching.cancel_scope.cancel()
    try:
        return await shop.log.load(saga.id)
    except LogUnavailable:
        # It says that nothing was sent, which is no longer true of this call.
        return saga


async def _tell(saga_id: str, shop: Workshop, on_progress: OnProgress) -> None:
    seen = 0
    with suppress(LogError):  # likewise
        while True:
            seen = await shop.log.wait_for_change(seen)
            saga = await shop.log.load(saga_id)
            try:
                await on_progress(saga)
            except Exception:  # noqa: BLE001 - whoever cannot be told: the rollback goes on, and is answered for
                _log.exception("progress_not_told", saga_id=saga_id)
                return
            await shop.clock.sleep(_TOLD_EVERY_S)
