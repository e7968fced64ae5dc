"""Tells requests when their sagas have come to rest: one look at the log for all of them, however many wait."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio
import structlog

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)

_LOOKS_APART_S: Final = 0.02
_OF_THE_TIME: Final = 4.0
"""Looks take at most a fifth of it."""


class Resting:
    """Who waits here for the rest of sagas that other processes drive."""

    def __init__(self, workshop: Workshop) -> None:
        self._shop = workshop
        self._waiting: dict[str, list[anyio.Event]] = {}
        self._wanted = anyio.Event()

    @contextmanager
    def waiting_for(self, saga_id: str) -> Generator[anyio.Event]:
        """An event that is set once the saga is no longer busy; who looks inside of this block misses nothing."""
        event = anyio.Event()
        self._waiting.setdefault(saga_id, []).append(event)
        self._wanted.set()
        try:
            yield event
        finally:
            self._waiting[saga_id].remove(event)
            if not self._waiting[saga_id]:
                del self._waiting[saga_id]

    async def watch(self) -> None:
        """Look whenever the log has changed, for ever after; most of the time nobody waits."""
        clock, log = self._shop.clock, self._shop.log
        seen = 0
        while True:
            if not self._waiting:
                self._wanted = anyio.Event()
                await self._wanted.wait()
            try:
                began = clock.now()
                busy = {row.id for row in await log.busy_sagas(self._shop.settings.realm)}
                for event in (each for saga_id in self._waiting.keys() - busy for each in self._waiting[saga_id]):
                    event.set()
                await clock.sleep(max(_LOOKS_APART_S, _OF_THE_TIME * (clock.now() - began)))
                seen = await log.wait_for_change(seen)
            except LogUnavailable:
                await clock.sleep(self._shop.settings.recovery_every_s)
            except Exception:  # noqa: BLE001 - the watch goes on for ever
                _log.exception("watch_failed")
                await clock.sleep(self._shop.settings.recovery_every_s)
