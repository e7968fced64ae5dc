"""What this process knows of its replies: which are on their way, which were lost, which the caller has (S8.1).

Memory only. What other processes have to know stands in the log: `ReplyLost`, and `seen` and `received` of the next
intent.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from saga_mcp.domain.events import StepPlan
from saga_mcp.engine.port import Caller
from saga_mcp.engine.ticket import Arrival, Order, Ticket

_MOST_KNOWN = 1024


@dataclass(slots=True)
class _Known:
    """What one caller of a saga is told: in a team's saga nobody hears the replies of others."""

    waiting: set[Ticket] = field(default_factory=set[Ticket])
    """Calls without a reply."""
    leaving: set[Ticket] = field(default_factory=set[Ticket])
    """Calls whose reply the transport has, and the caller perhaps not."""
    received: set[int] = field(default_factory=set[int])
    """Steps whose lost answer has reached the caller after all, by a join or a replay."""
    sent: int = 0
    """`seq` of the newest state that a reply named."""


class Delivery:
    """Follows the replies of this process."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        """By saga and caller."""
        self._lost: dict[Ticket, Order] = {}
        """Lost answers of which the log does not know yet: few, and for a short time."""

    def arrived(self, saga_id: str, caller: str) -> Arrival:
        """Take note of a call before anything is decided on it."""
        known = self._of(saga_id, caller)
        untold = known.waiting | known.leaving
        # A reply that is still on its way is seen by nobody, whatever newer states other replies have named.
        seen = min([known.sent, *(end for ticket in untold if (end := _unseen_from(ticket)) is not None)])
        lost = (ticket for ticket in self._lost if ticket.saga_id == saga_id)
        return Arrival(seen, tuple(sorted(known.received)), (*known.waiting, *lost))

    def expect(self, ticket: Ticket) -> None:
        """A reply is due."""
        self._of(ticket.saga_id, ticket.caller).waiting.add(ticket)

    def leaves(self, ticket: Ticket) -> None:
        """The reply is made."""
        known = self._of(ticket.saga_id, ticket.caller)
        known.waiting.discard(ticket)
        known.leaving.add(ticket)

    def sent(self, ticket: Ticket, seq: int) -> None:
        """The reply went out, with the step's answer."""
        known = self._of(ticket.saga_id, ticket.caller)
        known.leaving.discard(ticket)
        known.sent = max(known.sent, seq)
        if ticket.repeats and ticket.number:
            known.received.add(ticket.number)

    def lost(self, ticket: Ticket, order: Order) -> None:
        """The caller will not learn the step's answer from this reply. There may be no step yet."""
        known = self._of(ticket.saga_id, ticket.caller)
        known.waiting.discard(ticket)
        known.leaving.discard(ticket)
        known.received.discard(ticket.number)
        ticket.lost = True
        self._lost[ticket] = order

    def recorded(self, ticket: Ticket) -> None:
        """The log knows that the answer was lost, or there is nothing to know."""
        self._lost.pop(ticket, None)

    def refused(self, ticket: Ticket) -> None:
        """There was no step."""
        self._of(ticket.saga_id, ticket.caller).waiting.discard(ticket)

    def lost_of(self, saga_id: str, number: int) -> bool:
        """Whether the answer of a step was lost and the log does not know of it yet."""
        return any((ticket.saga_id, ticket.number) == (saga_id, number) for ticket in self._lost)

    def unstored(self, caller: Caller, plan: StepPlan) -> str | None:
        """The saga of an equal call without `saga_id` that was lost before its intent was known to be stored."""
        for ticket, order in self._lost.items():
            opening = order.opening
            if opening is None or ticket.saga is not None:
                continue
            same_caller = (opening.caller, opening.conversation) == (caller.id, caller.conversation)
            if same_caller and order.plan.same_call(plan):
                return ticket.saga_id
        return None

    def _of(self, saga_id: str, caller: str) -> _Known:
        whose = (saga_id, caller)
        known = self._known.setdefault(whose, _Known())
        self._known.move_to_end(whose)
        while len(self._known) > _MOST_KNOWN:
            oldest = next(iter(self._known))
            if self._known[oldest].waiting or self._known[oldest].leaving:
                break
            del self._known[oldest]
        return known


def _unseen_from(ticket: Ticket) -> int | None:
    """`seq` after which the outcome of a step was or may have been stored that its caller has not been told."""
    if ticket.saga is None or not ticket.number:
        return None
    order = ticket.saga.step(ticket.number).order
    if order:
        return order - 1
    return ticket.saga.seq if ticket.behind else None
