"""Steps that another process runs and says nothing of, past their hard deadline: it may be stopped, or hang.

Nothing follows from it: its owner's lock is held, so nobody may undo what it may still do (SEMANTICS.md S3.5). It is
told, because only a person can end such a process; what is known to be lost is settled before anybody asks here.
"""

from __future__ import annotations

from typing import Final

from saga_mcp.domain.events import StepAttempted, StepIntended
from saga_mcp.domain.state import Saga
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import Record
from saga_mcp.tools.pair import PairUnreadable

_SAYS_WITHIN_S: Final = 15.0
"""How long after a hard deadline a process that works has said that it has passed."""
_PAGE: Final = 1000


async def overdue_steps(shop: Workshop, saga: Saga) -> tuple[int, ...]:
    """Numbers of the steps of which that is so now, by the wall clock."""
    others = [step for step in saga.loose_steps if step.running and step.owner != shop.owners.me]
    if not others:
        return ()
    since: dict[int, float] = {}
    page: list[Record] = []
    while True:
        page = [*await shop.log.history(saga.id, after_seq=page[-1].seq if page else 0, limit=_PAGE)]
        since |= {each.event.step: each.at for each in page if isinstance(each.event, StepIntended | StepAttempted)}
        if len(page) < _PAGE:
            break
    found: list[int] = []
    for step in others:
        try:
            hard = (await shop.pairs.of(step)).hard_deadline_s
        except PairUnreadable:
            continue  # until when it counts as running is not known
        if since.get(step.number, shop.clock.wall()) + hard + _SAYS_WITHIN_S < shop.clock.wall():
            found.append(step.number)
    return tuple(found)
