"""Sagas that this process leaves to other servers of its realm, because it has not got the tools that are needed next.

Replicas differ for a while whenever a config is rolled out one by one. For so long it is no person's business.
Kept in memory: each process finds out once what it lacks.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import structlog

from saga_mcp.domain.saga_decisions import claim
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)

_LEFT_FOR_S: Final = 600.0
"""As long as a machine is waited for, and about as long as workers leave a saga to each other."""


class LeftToOthers:
    """What this process lacks the tools for, and since when it knows."""

    def __init__(self, workshop: Workshop) -> None:
        self._shop = workshop
        self._since: dict[str, float] = {}

    def keep(self, saga_ids: Collection[str]) -> None:
        """Forget all other sagas."""
        self._since = {saga_id: since for saga_id, since in self._since.items() if saga_id in saga_ids}

    async def holds(self, saga_id: str) -> bool:
        """Whether a saga is left to others: for ten minutes, and while there are any.

        Raises:
            LogUnavailable: that cannot be told now.
        """
        since = self._since.get(saga_id)
        if since is None or self._shop.clock.now() >= since + _LEFT_FOR_S:
            return False
        return await self._shop.owners.others_serve(self._shop.settings.realm)

    async def leave(self, saga_id: str, lacks: str) -> bool:
        """Give back the driving of a saga for whose next move something is missing here; False: it stays ours.

        Raises:
            LogUnavailable, LogConflict: see `Workshop.decide`.
        """
        self._since.setdefault(saga_id, self._shop.clock.now())
        if not await self.holds(saga_id):
            return False
        _log.warning("left_to_other_servers", saga_id=saga_id, reason=lacks)
        await self._shop.drive(saga_id, lambda now, _: claim(now, ""))
        return True
