"""Values that nothing needs any more, removed by whoever serves (SEMANTICS.md S11.5).

Beside the engine and not of it: it needs the log and the time, starts nothing and drives nothing. Several servers may
do it at once: a saga is wiped by a decision of its own, which the second one finds made.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import anyio
import structlog

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.port import EngineSettings
from saga_mcp.log.keeping import LogKeeping

_log = structlog.get_logger(__name__)

EVERY_S: Final = 60.0
"""How often it is looked for what has ended, in seconds."""


@contextlib.asynccontextmanager
async def wiping(log: LogKeeping, settings: EngineSettings, clock: Clock) -> AsyncGenerator[None]:
    """Wipe sagas of the realm as they are needed no more, until the block ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, log, settings, clock)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _watch(log: LogKeeping, settings: EngineSettings, clock: Clock) -> None:
    left_over = True  # by whoever was killed in between
    told: set[str] = set()
    while True:
        try:
            if await _wiped(log, settings, clock.wall(), told) or left_over:
                left_over = not await log.overwrite()
        except LogUnavailable as error:
            _log.warning("log_unavailable", reason=str(error))
        except Exception:  # noqa: BLE001 - the watch goes on for ever
            _log.exception("wipe_watch_failed")
        await clock.sleep(EVERY_S)


async def _wiped(log: LogKeeping, settings: EngineSettings, now: float, told: set[str]) -> int:
    wiped = 0
    committed_before = now - settings.revert_window_s
    for each in await log.ended(settings.realm, now, committed_before=committed_before, with_values=True):
        why = await log.wipe(each.saga_id)
        wiped += not why
        if why and each.saga_id not in told:  # it stays as it is, for a person or the next look
            told.add(each.saga_id)
            _log.warning("values_not_wiped", saga_id=each.saga_id, reason=why)
    return wiped
