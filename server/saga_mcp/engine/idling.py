"""Sagas that were forgotten: flagged, and ended where the config says so (SEMANTICS.md S9.4).

Idle time is what living processes have watched, not what clocks say: each tick raises one number of the realm by the
monotonic time since it was last seen, and never by more than a minute. While no process lives, or the machine sleeps,
nothing is counted; of several processes only one counts the same time.
"""

from __future__ import annotations

import contextlib

import structlog

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import LogConflict, LogUnavailable, Refused, SagaQuarantined
from saga_mcp.domain.events import Event
from saga_mcp.domain.saga_decisions import commit, flag_idle, request_abort
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import OnIdle, Phase
from saga_mcp.engine.port import SagaDriver
from saga_mcp.engine.workshop import Decider, Workshop
from saga_mcp.log.port import SagaRow

_log = structlog.get_logger(__name__)

_LONGEST_TICK_S = 60.0
_SHORTEST_TICK_S = 1.0
_TICKS = 10
"""In a limit: it is kept to a tenth of its length."""


class Idling:
    """Watches the realm while this process drives."""

    def __init__(self, workshop: Workshop, driver: SagaDriver) -> None:
        self._shop = workshop
        self._driver = driver
        self._watched_s = 0.0
        self._seen_at: float | None = None
        self._stopping = False

    def stop(self) -> None:
        """Flag and end nothing any more."""
        self._stopping = True

    async def watch(self) -> None:
        """Count time, and look for what was forgotten, for ever after."""
        # `idle_end_s` is never the shorter one.
        tick_s = min(_LONGEST_TICK_S, max(_SHORTEST_TICK_S, self._shop.settings.idle_flag_s / _TICKS))
        while not self._stopping:
            try:
                await self._count()
                await self._look()
            except LogUnavailable as error:
                _log.warning("log_unavailable", reason=str(error))
            except Exception:  # noqa: BLE001 - the watch goes on for ever
                _log.exception("idle_watch_failed")
            await self._shop.clock.sleep(tick_s)

    async def _count(self) -> None:
        clock = self._shop.clock
        seconds = 0.0 if self._seen_at is None else min(_LONGEST_TICK_S, clock.now() - self._seen_at)
        self._watched_s = await self._shop.log.observe(self._shop.settings.realm, self._watched_s, seconds)
        # Whoever has raised it counted up to a moment before now: what begins now nobody has counted yet.
        self._seen_at = clock.now()

    async def _look(self) -> None:
        settings = self._shop.settings
        for row in await self._shop.log.idle_sagas(settings.realm, for_s=settings.idle_flag_s):
            if not row.items:
                await self._decide(row, lambda saga, _: flag_idle(saga))
        if settings.on_idle is not OnIdle.FLAG:
            for row in await self._shop.log.idle_sagas(settings.realm, for_s=settings.idle_end_s):
                await self._decide(row, self._end)

    def _end(self, saga: Saga, driving: Driving) -> tuple[Event, ...]:
        if self._shop.settings.on_idle is OnIdle.COMMIT:
            return commit(saga, by="idle")
        return request_abort(saga, driving, cause="idle", by="policy")

    async def _decide(self, row: SagaRow, decider: Decider) -> None:
        """Append, unless the saga has moved since it was found idle. What is refused stays flagged (S7.2)."""

        def if_unmoved(saga: Saga, driving: Driving) -> tuple[Event, ...]:
            return decider(saga, driving) if saga.seq == row.seq and not self._stopping else ()

        with contextlib.suppress(Refused, SagaQuarantined, LogConflict):
            if (await self._shop.decide(row.id, if_unmoved)).saga.phase is Phase.COMPENSATING:
                await self._driver.wake(row.id)
