"""Which saga a call without `saga_id` belongs to (SEMANTICS.md S1.5, S8.3).

Each such call opens a saga of its own, with two exceptions. Where the client names the conversation, the parallel calls
of a first turn share one. There, and over HTTP, a call that is sent again because its answer was lost finds the saga
that it opened.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from saga_mcp.domain.events import StepPlan
from saga_mcp.domain.ids import ENTROPY_BYTES, saga_id
from saga_mcp.domain.living import Life
from saga_mcp.domain.repeats import is_acknowledged
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase, StepState
from saga_mcp.engine.delivery import Delivery
from saga_mcp.engine.port import Caller
from saga_mcp.engine.workshop import Workshop

_NEWEST = 20
"""How many open sagas of the conversation are looked through for the one a lost call had opened."""
_SENDINGS = 3
"""Of one call, in the saga that the first of them has opened, as are looked at."""


def new_saga_id() -> str:
    """A name that nobody can guess (S1.4)."""
    return saga_id(secrets.token_bytes(ENTROPY_BYTES))


@dataclass(slots=True)
class _Turn:
    saga_id: str
    calls: int = 0


class FirstTurns:
    """Finds or names the saga of calls without `saga_id`."""

    def __init__(self, workshop: Workshop, delivery: Delivery) -> None:
        self._shop = workshop
        self._delivery = delivery
        self._turns: dict[tuple[str, str], _Turn] = {}

    @asynccontextmanager
    async def saga_for(self, caller: Caller, plan: StepPlan) -> AsyncGenerator[tuple[str, bool]]:
        """The saga's id, and whether this call is the one that opens it; held until the call's reply goes out."""
        if not caller.conversation:
            # On a pipe nobody sends a call again whose answer was lost with the pipe, unless as the same conversation.
            known = await self._opened_before(caller, plan) if caller.remote else None
            yield known or new_saga_id(), known is None
            return
        slot = (caller.id, caller.conversation)
        turn = self._turns.get(slot)
        opens = False
        if turn is None:
            known = await self._opened_before(caller, plan)
            if known is not None:
                yield known, False
                return
            turn = self._turns.get(slot)
        if turn is None:
            turn = self._turns[slot] = _Turn(new_saga_id())
            opens = True
        turn.calls += 1
        try:
            yield turn.saga_id, opens
        finally:
            # The first reply names the saga: whoever calls from now on can know it.
            if self._turns.get(slot) is turn:
                del self._turns[slot]

    async def _opened_before(self, caller: Caller, plan: StepPlan) -> str | None:
        """The saga that this very call opened when it was first sent, where that one runs or its answer was lost."""
        unstored = self._delivery.unstored(caller, plan)
        if unstored is not None:
            return unstored
        rows = await self._shop.log.sagas(
            self._shop.settings.realm,
            caller=caller.id,
            conversation=caller.conversation,
            open_only=True,
            limit=_NEWEST,
        )
        for row in rows:
            if not 1 <= row.steps <= _SENDINGS:
                continue
            saga = await self._shop.log.load(row.id)
            if await self._is_of_sendings(saga, plan):
                return saga.id
        return None

    async def _is_of_sendings(self, saga: Saga, plan: StepPlan) -> bool:
        """Whether the saga holds nothing but sendings of this call, the last of them without a reply that arrived."""
        if not saga.implicit or saga.phase is not Phase.ACTIVE or not saga.steps:
            return False
        *earlier, step = saga.steps
        # One that is known to have had no effect is followed by a step of its own, in the same saga.
        if not step.plan.same_call(plan) or any(
            each.state is not StepState.FAILED or not each.plan.same_call(plan) for each in earlier
        ):
            return False
        same_id = step.plan.call_id == plan.call_id or not (step.plan.call_id and plan.call_id)
        if (step.running and same_id) or step.reply_lost or self._delivery.lost_of(saga.id, step.number):
            return True
        return not is_acknowledged(saga, step) and await self._shop.life(step.owner) is Life.DEAD
