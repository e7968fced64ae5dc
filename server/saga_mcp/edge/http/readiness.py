"""Whether calls should be sent to this process, and why not: what `/readyz` answers."""

from __future__ import annotations

from typing import Final

import anyio

from saga_mcp.domain.errors import LogError
from saga_mcp.edge.http.serving import Stopping
from saga_mcp.edge.service import SagaService
from saga_mcp.log.port import Claim, SagaLog

_WITHIN_S: Final = 2.0
_UNSEEN: Final = {
    Claim.HELD: "",
    Claim.AWAITED: "the database of the saga log cannot be reached: calls are refused until it can, nothing to restart",
    Claim.LOST: "others have taken over what this process drove: restart it",
}


class Readiness:
    """Looks when it is asked: at this process, and whether the log answers.

    Args:
        service: knows whether others see that this process lives.
        log: is read.
        realm: whose.
        stopping: whether it is on its way out.
    """

    def __init__(self, service: SagaService, log: SagaLog, realm: str, stopping: Stopping) -> None:
        self._service = service
        self._log = log
        self._realm = realm
        self._stopping = stopping

    async def trouble(self) -> str:
        """Why no calls should come here; empty: they may."""
        if self._stopping.begun:
            return "stopping"
        if unseen := _UNSEEN[self._service.standing]:
            return unseen
        with anyio.move_on_after(_WITHIN_S):
            try:
                await self._log.paused(self._realm)  # any read does
            except LogError:
                return "the saga log cannot be used"
            return ""
        return "the saga log does not answer"
