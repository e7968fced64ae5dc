"""What this process knows of its replies: which are on their way, which were lost, which the caller has (S8.1).

Memory only. What other processes have to know stands in the log: `ReplyLost`, and `seen` and `received` of the next
intent.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from saga_mcp.engine.ticket import Arrival, Ticket

_SAGAS = 1024


@dataclass(slots=True)
class _Known:
    """One saga's replies."""

    waiting: set[Ticket] = field(default_factory=set[Ticket])
    lost: set[int] = field(default_factory=set[int])
    received: set[int] = field(default_factory=set[int])
    """Steps whose lost answer has reached the caller after all, by a join or a replay."""
    sent: int = 0
    """`seq` of the newest state that a reply named."""


class Delivery:
    """Follows the replies of this process."""

    def __init__(self) -> None:
        self._sagas: OrderedDict[str, _Known] = OrderedDict()

    def arrived(self, saga_id: str) -> Arrival:
        """Take note of a call before anything is decided on it."""
        known = self._of(saga_id)
        # A reply that is still on its way is seen by nobody, whatever newer states other replies have named.
        ended = [ticket.saga.step(ticket.number).order for ticket in known.waiting if ticket.saga and ticket.number]
        seen = min([known.sent, *(order - 1 for order in ended if order)])
        return Arrival(seen, tuple(sorted(known.received)), frozenset(known.lost - known.received))

    def expect(self, ticket: Ticket) -> None:
        """A reply is due."""
        self._of(ticket.saga_id).waiting.add(ticket)

    def sent(self, ticket: Ticket, seq: int) -> None:
        """The reply went out, with the step's answer."""
        known = self._of(ticket.saga_id)
        known.waiting.discard(ticket)
        known.sent = max(known.sent, seq)
        if ticket.repeats and ticket.number:
            known.received.add(ticket.number)

    def lost(self, ticket: Ticket) -> None:
        """The caller will not learn the step's answer from this reply."""
        known = self._of(ticket.saga_id)
        known.waiting.discard(ticket)
        if ticket.number:
            known.lost.add(ticket.number)
            known.received.discard(ticket.number)

    def refused(self, ticket: Ticket) -> None:
        """There was no step."""
        self._of(ticket.saga_id).waiting.discard(ticket)

    def _of(self, saga_id: str) -> _Known:
        known = self._sagas.setdefault(saga_id, _Known())
        self._sagas.move_to_end(saga_id)
        while len(self._sagas) > _SAGAS:
            oldest = next(iter(self._sagas))
            if self._sagas[oldest].waiting:
                break
            del self._sagas[oldest]
        return known
