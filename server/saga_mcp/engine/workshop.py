"""What every part of the engine works with: the log, the tools, time, and what is known of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import CaptureFailed, LogConflict, LogUnavailable
from saga_mcp.domain.events import Event
from saga_mcp.domain.fencing import starts
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.living import Life
from saga_mcp.domain.results import last_succeeded
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_decisions import Landing
from saga_mcp.domain.values import JsonValue, Phase
from saga_mcp.engine.appending import STORE_AGAIN, Appending
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.facts import facts_of, offered_as, stored_facts_of
from saga_mcp.engine.in_hand import InHand
from saga_mcp.engine.pairs import FrozenPairs
from saga_mcp.engine.port import EngineSettings, SagaDriver
from saga_mcp.log.port import Claim, Decided, Decision, Owners, PairRow, SagaLog, StepLock
from saga_mcp.tools.looks import Looks, lock_name
from saga_mcp.tools.pair import KeyFormat, PairUnreadable
from saga_mcp.tools.port import Catalogue, Judged, Landed, StepFacts

_log = structlog.get_logger(__name__)

_UNSEEN = "Others could not see that this server lives. Nothing was stored and nothing was sent. Try again in a moment."

Decider: TypeAlias = Callable[[Saga, Driving], tuple[Event, ...]]
"""A pure decision of the domain, with what it observed already filled in."""


@dataclass(kw_only=True)
class Workshop:
    """The engine's tools of the trade."""

    settings: EngineSettings
    log: SagaLog
    owners: Owners
    catalogue: Catalogue
    clock: Clock
    drives: bool
    """Whether this process drives sagas, or leaves that to whoever is alive."""
    driver_name: str = ""
    """Name of its driver, under which it claims sagas."""
    otherwise: str = ""
    """Name of the driver that has the realm, where that is another one: then nothing is driven here (S12.2)."""
    tells: bool = False
    """Whether it says in its log what there is to tell (S10.6)."""
    in_hand: InHand = field(default_factory=InHand)

    @property
    def claimed(self) -> bool:
        """Whether others see this process as alive now: while they do not it starts nothing new (S3.5)."""
        return self.owners.standing is Claim.HELD

    @property
    def claim_lost(self) -> bool:
        """Whether they never will again: its work is theirs."""
        return self.owners.standing is Claim.LOST

    async def life(self, owner: str) -> Life:
        """What is known of a process. Of itself one knows that it lives, whatever became of its lock: its calls run."""
        return Life.LIVES if owner == self.owners.me else (await self.owners.look([owner]))[owner]

    async def lives(self, owners: Collection[str]) -> Mapping[str, Life]:
        """The same of several, but for this one."""
        others = [owner for owner in owners if owner != self.owners.me]
        return await self.owners.look(others) if others else {}

    def alive_in_decision(self, owner: str) -> bool:
        """Whether a process is not proved dead, inside a decision."""
        return owner == self.owners.me or self.appending.life(owner) is not Life.DEAD

    @property
    def driver(self) -> str:
        """The driver that new work names."""
        return self.owners.me if self.drives and not self.otherwise else ""

    @cached_property
    def looks(self) -> Looks:
        """What pairs read, and what they make of it."""
        return Looks(self.catalogue.reader)

    @cached_property
    def pairs(self) -> FrozenPairs:
        """Pairs as they were frozen."""
        return FrozenPairs(self.log)

    @cached_property
    def appending(self) -> Appending:
        """What decisions go through."""
        return Appending(self.log, self.pairs, self.catalogue, self.life, self.clock, tells=self.tells)

    async def decide(
        self,
        saga_id: str,
        decider: Decider,
        *,
        pairs: tuple[PairRow, ...] = (),
        lock: StepLock | None = None,
        settle_within_s: float = math.inf,
    ) -> Decided:
        """Append what `decider` returns for the saga's current state; for more see `Appending.append`.

        Args:
            saga_id: the saga.
            decider: what to append.
            pairs: what to freeze with it.
            lock: under which it is made.
            settle_within_s: see `Appending.append`.
        """

        def decide_on(saga: Saga) -> Decision:
            events = decider(saga, self.driving(saga))
            if starts(events):
                self.require_claim()  # here, for the claim may have been lost since the call came
            return Decision(events=events, pairs=pairs, driver=self.driver_name, lock=lock)

        return await self.appending.append(saga_id, decide_on, settle_within_s=settle_within_s)

    async def drive(self, saga_id: str, decider: Decider) -> Decided:
        """Append what the driver of a saga makes of its state; nothing where that is another process by now (S10.5)."""
        me = self.owners.me
        return await self.decide(saga_id, lambda now, driving: decider(now, driving) if now.driver == me else ())

    def require_claim(self) -> None:
        """Refuse to start anything while others do not see that this process lives (S3.5).

        Raises:
            LogUnavailable: they do not.
        """
        if not self.claimed:
            raise LogUnavailable(self.owners.trouble or _UNSEEN)

    def driving(self, saga: Saga) -> Driving:
        """Who decides here on a saga."""
        return Driving(self.driver, lambda step: self._bind(saga, step), lambda step: self._place(saga, step))

    async def record(self, saga_id: str, decider: Decider) -> Decided:
        """Append what has happened in the world: the log is asked until it takes it, for nobody else will ever know.

        Raises:
            SagaQuarantined: the saga takes no events any more.
        """
        times = 0
        while True:
            try:
                return await self.decide(saga_id, decider)
            except (LogUnavailable, LogConflict) as error:
                times += 1
                _log.warning("outcome_waits_for_the_log", saga_id=saga_id, times=times, reason=str(error))
            await self.clock.sleep(STORE_AGAIN.delay_s(times))

    def facts(
        self, saga: Saga, step: Step, *, result: JsonValue = None, known: bool = False, text: str | None = None
    ) -> StepFacts:
        """What the step's undo and probe may look at."""
        return facts_of(saga, step, self._key_form(step), self.offered, result=result, known=known, text=text)

    def known_facts(self, saga: Saga, step: Step) -> StepFacts:
        """The same with the result as the log holds it."""
        return stored_facts_of(saga, step, self._key_form(step), self.offered)

    def _key_form(self, step: Step) -> KeyFormat:
        pair = self.pairs.known(step)
        return KeyFormat.BASE32 if pair is None else pair.key_format

    def offered(self, tool: str) -> str:
        """The name under which agents see a tool, by its name in the config."""
        return offered_as(self.catalogue, tool)

    def landing(
        self, saga: Saga, number: int, found: Landed, *, text: str | None = None, after: JsonValue = None
    ) -> Landing:
        """A forward action that took effect, with its undo bound to what is known of it.

        Args:
            saga: The state before that is stored.
            number: The step.
            found: How it is known, and with which result.
            text: What the call itself answered; None where somebody else says that it took effect.
            after: What was read after it.
        """
        step = saga.step(number)
        facts = self.facts(saga, step, result=found.result, known=True, text=text)
        violated = self._violated(saga, step, found.result)
        undo = self._bound(step, replace(facts, exact=found.exact, after=after))
        return Landing(result=found.result, kept=found.kept, undo=undo, violated=violated)

    def undo_after(self, saga: Saga, number: int, *, after: JsonValue, text: str | None, exact: bool) -> BoundUndo:
        """The undo of a step that has landed, bound once more with what was read after it."""
        step = saga.step(number)
        facts = self.facts(saga, step, result=step.result, known=True, text=text)
        return self._bound(step, replace(facts, after=after, exact=exact))

    def _violated(self, saga: Saga, step: Step, result: JsonValue) -> tuple[str, ...]:
        """Which rules the step's result violates, together with the others' as they are in this decision (S9.3)."""
        if not self.catalogue.invariants or saga.phase is not Phase.ACTIVE:
            return ()
        # An answer that comes late keeps its place: a newer call of the same tool has the last word.
        ended = replace(step, result=result, order=step.order or saga.next_seq)
        others = [other for other in last_succeeded(saga) if other.number != step.number]
        by_order = sorted((*others, ended), key=lambda each: each.order)
        results = {self.offered(each.tool): each.result for each in by_order}
        return self.appending.violated(
            (saga.id, step.number), Judged(results=results, args=step.plan.args, result=result)
        )

    def _bind(self, saga: Saga, step: Step) -> BoundUndo:
        return self._bound(step, self.facts(saga, step))

    def _place(self, saga: Saga, step: Step) -> str:
        try:
            return lock_name(self.pairs.in_decision(step), step.plan, saga.id)
        except (PairUnreadable, CaptureFailed):
            return ""

    def _bound(self, step: Step, facts: StepFacts) -> BoundUndo:
        try:
            pair = self.pairs.in_decision(step)
        except PairUnreadable as unreadable:
            return BoundUndo(parts=None, build_error=str(unreadable))
        return self.catalogue.bind(pair, facts)


DriverFactory: TypeAlias = Callable[[Workshop, TaskGroup], SagaDriver]
"""Makes the driver of a process, which is not started yet."""
