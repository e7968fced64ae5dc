"""Steps that wait for processes of another machine, and since when (SEMANTICS.md S1.3).

Kept in memory, by the clock that this process has watched: a machine that comes back in that time bothers nobody.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import structlog

from saga_mcp.domain.duties import owners
from saga_mcp.domain.hosts import await_hosts, awaiting, host_name
from saga_mcp.domain.state import Saga
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)

FLAGGED_AFTER_S: Final = 600.0


class AwaitedHosts:
    """What this process has seen waiting for other machines."""

    def __init__(self, workshop: Workshop) -> None:
        self._shop = workshop
        self._since: dict[tuple[str, int], float] = {}
        """By saga and step."""
        self._settled: dict[str, tuple[int, float]] = {}
        """Sagas in which nothing else is to be looked at: their `seq` then, and when people are to be told."""

    def keep(self, saga_ids: Collection[str]) -> None:
        """Forget all other sagas."""
        self._since = {slot: since for slot, since in self._since.items() if slot[0] in saga_ids}
        self._settled = {saga_id: seen for saga_id, seen in self._settled.items() if saga_id in saga_ids}

    def is_known(self, saga_id: str, seq: int) -> bool:
        """Whether a look at the saga would find what the last one found, and nobody is to be told of it yet."""
        seen = self._settled.get(saga_id)
        return seen is not None and seen[0] == seq and self._shop.clock.now() < seen[1]

    async def look(self, saga: Saga) -> float:
        """See what of the saga waits for other machines; after ten minutes that is recorded, which tells people.

        Returns:
            When, by the clock, that would be recorded; infinite where there is nothing to record.
        """
        now = self._shop.clock.now()
        waiting = {step.number: step for step in awaiting(saga, self._shop.settings.host)}
        for slot in [slot for slot in self._since if slot[0] == saga.id and slot[1] not in waiting]:
            del self._since[slot]
        unflagged = {
            number: self._since.setdefault((saga.id, number), now) + FLAGGED_AFTER_S
            for number, step in waiting.items()
            if not step.host_awaited
        }
        late = [number for number, flagged_at in unflagged.items() if flagged_at <= now]
        self._settled.pop(saga.id, None)
        if late:
            hosts = sorted({host_name(waiting[number].plan.host) for number in late})
            _log.warning("host_awaited", saga_id=saga.id, steps=late, hosts=hosts)
            await self._shop.decide(saga.id, lambda now, _: await_hosts(now, late))
        elif waiting and not owners(saga):
            self._settled[saga.id] = (saga.seq, min(unflagged.values(), default=now + FLAGGED_AFTER_S))
        return min((at for at in unflagged.values() if at > now), default=math.inf)
