"""Stores the intents of calls, with what has to be there before: a way to the tool, a lock, a capture (S5.3, S6.1).

Apart from `forward`, which sends what is stored here.
"""

from __future__ import annotations

from dataclasses import dataclass

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import SagaNotFound
from saga_mcp.domain.events import Event
from saga_mcp.domain.repeats import NewStep, repeat_of
from saga_mcp.domain.saga_decisions import require_open
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonValue
from saga_mcp.engine.begin import first_events
from saga_mcp.engine.locks import StepLocks
from saga_mcp.engine.ticket import AllowedCall, AskingCall, Call, Order, Ticket
from saga_mcp.engine.witness import BEFOREHAND, Witness
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import Decided, StepLockLost
from saga_mcp.tools.port import StepFacts


class _Unprepared(Exception):
    """The call is admitted, and the world has to be looked at before its intent is stored."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Whether what has to come before the intent is done, and what it brought."""

    done: bool
    capture: JsonValue = None


class Intents:
    """Stores the intents of this process."""

    def __init__(self, workshop: Workshop, locks: StepLocks, witness: Witness) -> None:
        self._shop = workshop
        self._locks = locks
        self._witness = witness

    async def store(self, order: Order, ticket: Ticket) -> tuple[Decided, Call]:
        """Store the intent, with the capture that goes with it; or find that the call is a repeat.

        Raises:
            Refused, LogError, UpstreamDown: nothing was stored.
        """
        looks = order.pair.capture is not None or order.pair.guard is not None
        prepared = _Prepared(done=order.tool.reachable and not looks)
        while True:
            try:
                return await self._decided(order, ticket, prepared)
            except _Unprepared:
                prepared = await self._prepared(order, ticket)
            except StepLockLost:
                # Others took this process for gone, and one of them works on it by now: what was read is old.
                ticket.lock, prepared = None, _Prepared(done=False)

    async def _decided(self, order: Order, ticket: Ticket, prepared: _Prepared) -> tuple[Decided, Call]:
        call: list[Call] = []

        def begin(saga: Saga, _driving: Driving) -> tuple[Event, ...]:
            call[:] = [self._call(saga, order, ticket)]
            events = first_events(self._shop, saga, order, ticket.arrival, call[0], prepared.capture)
            if events and not (prepared.done or isinstance(call[0], AskingCall)):
                raise _Unprepared  # admitted, and nothing of it stored: what is there now is read first
            ticket.take()
            return events

        with self._shop.in_hand.holding(ticket.saga_id):
            pairs = (self._shop.pairs.row(order.pair),)
            decided = await self._shop.decide(ticket.saga_id, begin, pairs=pairs, lock=ticket.lock)
        return decided, call[0]

    async def _prepared(self, order: Order, ticket: Ticket) -> _Prepared:
        # What is not sent is no step: nobody has to undo anything for it.
        await order.tool.reach(BEFOREHAND * self._shop.settings.reply_within_s)
        if order.pair.capture is None and order.pair.guard is None:
            return _Prepared(done=True)
        if ticket.lock is None and not await self._locks.take(order, ticket):
            return _Prepared(done=False)
        if order.pair.capture is None:
            return _Prepared(done=True)
        facts = StepFacts(saga_id=ticket.saga_id, tool=order.pair.tool, number=0, key="", args=order.plan.args)
        return _Prepared(done=True, capture=await self._witness.before(order.pair, facts))

    def _call(self, saga: Saga, order: Order, ticket: Ticket) -> Call:
        if saga.opened and saga.realm != self._shop.settings.realm:
            raise SagaNotFound(saga.id)
        if order.allowed:
            return AllowedCall(order.allowed)
        new = AskingCall() if order.asks else NewStep()
        if not saga.opened:
            return new
        require_open(saga)
        replies = ticket.known_replies(self._shop.alive_in_decision)
        repeat = repeat_of(saga, order.plan, order.tool.listing.on_repeat, replies)
        return new if isinstance(repeat, NewStep) else repeat
