"""Opens sagas: whose they are, and what a caller's key of `saga_begin` finds again (SEMANTICS.md S8.4)."""

from __future__ import annotations

from saga_mcp.domain.errors import SagaNotFound
from saga_mcp.domain.events import SagaOpened
from saga_mcp.domain.ownership import owner_of_team
from saga_mcp.domain.saga_decisions import require_open
from saga_mcp.domain.state import Saga
from saga_mcp.engine.first_turn import new_saga_id
from saga_mcp.engine.port import Caller
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import SagaKeyTaken


class Openings:
    """What a process opens."""

    def __init__(self, workshop: Workshop) -> None:
        self._shop = workshop

    def opening(
        self, caller: Caller, *, implicit: bool, purpose: str = "", key: str = "", team: str = ""
    ) -> SagaOpened:
        """The event that opens a saga of this caller, or of a team."""
        settings = self._shop.settings
        return SagaOpened(
            realm=settings.realm,
            driver=self._shop.driver,
            on_error=settings.on_error,
            on_undo_failure=settings.on_undo_failure,
            caller=owner_of_team(team) if team else caller.id,
            opener=caller.id if team else "",
            conversation=caller.conversation,
            key=key,
            purpose=purpose,
            implicit=implicit,
        )

    async def begin(self, caller: Caller, *, purpose: str, key: str, team: str) -> Saga:
        """Open a saga, or return the one that has this key already.

        Raises:
            SagaClosed, SagaAborted: it is not open any more.
            Refused: the caller may open no more.
        """
        new = new_saga_id()
        opening = self.opening(caller, implicit=False, purpose=purpose, key=key, team=team)
        known = await self._shop.log.saga_of_key(opening.realm, opening.caller, key) if key else None
        if known is not None:
            return await self._joined(known)
        try:
            within_s = self._shop.settings.reply_within_s
            async with caller.opening(new):
                opened = await self._shop.decide(
                    new, lambda saga, _: () if saga.opened else (opening,), settle_within_s=within_s
                )
        except SagaKeyTaken as taken:
            return await self._joined(taken.saga_id)
        return opened.saga

    async def _joined(self, known: str) -> Saga:
        saga = await self._shop.log.load(known)
        if saga.realm != self._shop.settings.realm:
            raise SagaNotFound(known)
        require_open(saga)
        return saga
