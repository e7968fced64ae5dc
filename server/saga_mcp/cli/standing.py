"""Why a saga is not at rest: who drives it, what each of its steps waits for and until when, and what waits behind it.

Pure, but for the reading of pairs: times are those of the events, limits those of the pairs as they were frozen. What a
process has drawn by chance (the jitter of a back-off) nobody else knows, so the latest time is told.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from saga_mcp.cli.items import behind, item_at
from saga_mcp.cli.pausing import line
from saga_mcp.cli.timeline import utc_time
from saga_mcp.domain.duties import busy
from saga_mcp.domain.events import (
    StepApproved,
    StepAttempted,
    StepAttemptEnded,
    StepAwaitingApproval,
    StepFellInDoubt,
    StepIntended,
    UndoFailed,
    UndoFellInDoubt,
    UndoIntended,
)
from saga_mcp.domain.hosts import awaited_hosts, awaiting, host_name, is_elsewhere
from saga_mcp.domain.pausing import Pause, held_call, held_undo
from saga_mcp.domain.rollback import next_undo
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import JsonObject, PartState, Phase, StepState
from saga_mcp.edge.clean import escape
from saga_mcp.edge.outages import utc, waited_for, waits
from saga_mcp.edge.wording import waits_for
from saga_mcp.engine.undo_policy import policy_of
from saga_mcp.log.owners import LivingOwner
from saga_mcp.log.port import Record, SagaLog
from saga_mcp.tools.pair import Pair, PairUnreadable

_SAYS_WITHIN_S = 15.0
"""How long after a hard deadline a process that works has said that it has passed."""

Pairs = Mapping[int, Pair | PairUnreadable]
"""Frozen pairs, by step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a step waits for."""

    step: int
    kind: str
    """`call`, `attempt`, `doubt`, `approval`, `send`, `resource`, `undo`, `undo_attempt`, `undo_doubt`, `upstream`,
    `paused`, `host` or `person`."""
    words: str
    since: float | None = None
    until: float | None = None
    """Wall clock at which it ends at the latest, or goes on, where that is known."""
    pid: int | None = None
    """The living process that has it in hand."""
    behind: tuple[int, ...] = ()
    """Older steps, which are undone only after it."""
    holder: str = ""
    """The saga that has to end first."""
    overdue: bool = False
    """Its process lives, and has not said by its hard deadline what came of it."""

    def json(self) -> JsonObject:
        """For programs."""
        return {
            "step": self.step,
            "waits_for": self.kind,
            "since": None if self.since is None else utc_time(self.since),
            "until": None if self.until is None else utc_time(self.until),
            "pid": self.pid,
            "behind": [*self.behind],
            "holder": self.holder or None,
            "overdue": self.overdue,
        }

    def line(self) -> str:
        """For people."""
        held = f". Behind it: {_steps(self.behind)}" if self.behind else ""
        return f"step {self.step}: {self.words}{held}"


@dataclass(frozen=True, slots=True)
class Standing:
    """What keeps a saga from its rest; nothing where it is at rest."""

    is_busy: bool
    driver_pid: int | None
    found: tuple[Wait, ...]
    for_workers: bool = False
    """It names no process: whichever worker has its turn takes it."""
    driver: str = ""
    """Where the driver is found, for people."""
    needs: tuple[str, ...] = ()
    """Machines that have to go on, as people know them: nothing that is due is for this one."""

    def json(self, step: int | None) -> JsonObject:
        """For programs; of one step only where that is asked."""
        waits = [each.json() for each in self._of(step)]
        return {"driver_pid": self.driver_pid, "needs_hosts": [*self.needs], "waits": [*waits]}

    def lines(self, step: int | None) -> Iterator[str]:
        """For people."""
        yield from (each.line() for each in self._of(step))
        if self.is_busy and self.needs and not self.driver_pid:
            yield f"It needs host {', '.join(self.needs)}: a server or `saga-mcp recover` there goes on with it."
        elif self.is_busy:
            nobody = "No worker has taken it yet." if self.for_workers else "Nobody alive drives it."
            yield f"Driven by pid {self.driver}." if self.driver_pid else nobody

    def _of(self, step: int | None) -> Iterator[Wait]:
        return (each for each in self.found if step in {None, each.step})


async def frozen_pairs(log: SagaLog, steps: Iterable[Step]) -> Pairs:
    """The pairs of these steps as they were at their intents."""
    pairs: dict[int, Pair | PairUnreadable] = {}
    for step in steps:
        if step.number not in pairs:
            row = await log.pair(step.plan.pair_hash)
            try:
                pairs[step.number] = Pair.of_row(step.plan.pair_hash, None if row is None else row.content)
            except PairUnreadable as unreadable:
                pairs[step.number] = unreadable
    return pairs


async def other_holders(log: SagaLog, saga: Saga) -> Mapping[str, str]:
    """The other sagas that hold what allowed calls of this one wait for, by that."""
    found: dict[str, str] = {}
    for step in saga.loose_steps:
        if step.state is StepState.AWAITING_APPROVAL and step.approved and step.plan.resource:
            holder = await log.holder(saga.realm, step.plan.resource)
            if holder is not None and holder.saga_id != saga.id:
                found[step.plan.resource] = holder.saga_id
    return found


def standing(  # noqa: PLR0913 - what was read of it, and who looks
    saga: Saga,
    records: Sequence[Record],
    pairs: Pairs,
    alive: Sequence[LivingOwner],
    paused: Mapping[str, Pause],
    holders: Mapping[str, str],
    *,
    now: float | None = None,
    here: str = "",
) -> Standing:
    """Why a saga is not at rest.

    Args:
        saga: The saga.
        records: All its events.
        pairs: Of its loose steps at least.
        alive: Who uses its log now.
        paused: What a person has paused, by tool.
        holders: Which other saga holds what a call of it waits for.
        now: The wall clock; default: the machine's.
        here: Id of this machine.
    """
    now = time.time() if now is None else now
    pids = {owner.id: owner.pid for owner in alive}
    held = held_undo(saga, paused) or held_call(saga, paused)
    places = {owner.id: owner.where for owner in alive}
    teller = _Teller(saga, records, pairs, pids, held, holders, now, places, here)
    going = busy(saga)
    driver = teller.alive.get(saga.driver) if going else None
    steps = {step.number: step for step in saga.loose_steps}
    if held is not None:
        steps.setdefault(held[0].number, held[0])  # an undo that was never tried leaves its step as it was
    for step in awaiting(saga, here):
        steps.setdefault(step.number, step)
    found = tuple(chain.from_iterable(map(teller.of, steps.values())))
    where, needs = places.get(saga.driver, ""), tuple(map(host_name, awaited_hosts(saga, here)))
    return Standing(going, driver, found, for_workers=not saga.driver, driver=where, needs=needs)


@dataclass(frozen=True, slots=True)
class _Teller:
    saga: Saga
    records: Sequence[Record]
    pairs: Pairs
    alive: Mapping[str, int]
    held: tuple[Step, Pause] | None
    holders: Mapping[str, str]
    now: float
    places: Mapping[str, str]
    """Where living processes are found, for people."""
    here: str

    def of(self, step: Step) -> Iterator[Wait]:
        """What one step waits for."""
        if any(each.number == step.number for each in awaiting(self.saga, self.here)):
            told = " It has for ten minutes: a person may decide what becomes of it" if step.host_awaited else ""
            words = f"what is next for it needs host {host_name(step.plan.host)}, where it was done.{told}"
            yield Wait(step=step.number, kind="host", words=words.rstrip("."), behind=self._behind(step))
            return
        yield from self._forward(step)
        item = item_at(self.saga, step.number)
        if item is not None and step.state is not StepState.AWAITING_APPROVAL:
            yield Wait(
                step=step.number,
                kind="person",
                words=f"waits for a person, {waits_for(item.kind)}{self._unless_settled(step)}",
                behind=self._behind(step),
            )
        part = step.next_part
        if part is not None and item is None and self.saga.phase is Phase.COMPENSATING:
            yield from self._undo(step, part)

    def _forward(self, step: Step) -> Iterator[Wait]:
        pair = self.pairs.get(step.number)
        if step.running:
            yield self._call(step, pair)
        elif step.state is StepState.INTENDED and not step.exhausted:
            since = self._last(step, StepAttemptEnded)
            until = None
            if since is not None and isinstance(pair, Pair):
                until = since + pair.retry.delay_s(max(step.attempts, 1))
            words = f"attempt {step.attempts} of its call failed{_at(since)}, and it is attempted again{_by(until)}"
            yield Wait(
                step=step.number, kind="attempt", words=words, since=since, until=until, pid=self._pid(step.owner)
            )
        elif step.probed_now:
            since = self._last(step, StepFellInDoubt)
            yield Wait(
                step=step.number,
                kind="doubt",
                words=f"its outcome is unknown{_since(since)}, and its tool is asked about it",
                since=since,
                behind=self._behind(step),
            )
        elif step.state is StepState.AWAITING_APPROVAL:
            yield self._question(step)

    def _call(self, step: Step, pair: Pair | PairUnreadable | None) -> Wait:
        since = self._last(step, StepIntended, StepAttempted)
        until = hard = None
        if since is not None and isinstance(pair, Pair):
            until, hard = since + pair.timeout_s, since + pair.hard_deadline_s
        late = step.state is StepState.IN_DOUBT
        limits = "" if until is None or late or until < self.now else f", is waited for until {utc(until)}"
        overdue, end = self._end(hard, step.owner, told=step.overdue)
        words = f"its call runs{_since(since)} in {self._process(step.owner)}{limits}{end}"
        return Wait(
            step=step.number,
            kind="call",
            words=words,
            since=since,
            until=hard,
            pid=self._pid(step.owner),
            behind=self._behind(step),
            overdue=overdue,
        )

    def _end(self, hard: float | None, owner: str, *, told: bool) -> tuple[bool, str]:
        """Whether an attempt that has not ended is overdue, and what is said of its end; never a time that is past.

        Args:
            hard: its hard deadline, where that is known.
            owner: whose it is.
            told: its process has said itself that it cannot stop it.
        """
        pid = self._pid(owner)
        if pid is None:
            rest = f". It counts as running until {utc(hard)}" if hard is not None and hard > self.now else ""
            return False, f"{rest}. The next server, or `saga-mcp recover`, looks into what came of it"
        if told:
            return False, ", past its hard deadline, and cannot be stopped: it ends with its process at the latest"
        if hard is None or hard > self.now:
            return False, "" if hard is None else f", and counts as running until {utc(hard)}"
        if hard + _SAYS_WITHIN_S > self.now:
            return False, ", and is past its hard deadline"
        return True, (
            f". It was to end by {utc(hard)}, and pid {self.places[owner]} holds its lock and says nothing: it may be "
            "stopped, or hang. Nobody undoes what it may still do. Let it go on "
            f"(`kill -CONT {pid}`) or end it (`kill -9 {pid}`): then this is settled"
        )

    def _unless_settled(self, step: Step) -> str:
        lost = step.running and self._pid(step.owner) is None
        return ", if `saga-mcp recover` or the next server does not settle it: try that first" if lost else ""

    def _question(self, step: Step) -> Wait:
        if step.approved:
            since = self._last(step, StepApproved)
            if self.held is not None and self.held[0].number == step.number:
                words = f"its call was allowed{_at(since)}, and waits: {line(self.held[1])}"
                return Wait(step=step.number, kind="paused", words=words, since=since)
            if (holder := self.holders.get(step.plan.resource)) is not None:
                what = f'"{escape(step.plan.resource)}", which saga {holder} holds'
                words = f"its call was allowed{_at(since)}, and waits for {what}"
                return Wait(step=step.number, kind="resource", words=words, since=since, holder=holder)
            words = f"its call was allowed{_at(since)}, and waits for what is before it to be settled"
            if is_elsewhere(step, self.here):
                words = f"its call was allowed{_at(since)}, and needs host {host_name(step.plan.host)}"
            return Wait(step=step.number, kind="send", words=words, since=since)
        since = self._last(step, StepAwaitingApproval)
        until = step.expires_at or None
        words = f"its call waits{_since(since)} for a person to allow it{_by(until)}"
        return Wait(step=step.number, kind="approval", words=words, since=since, until=until)

    def _undo(self, step: Step, part: Part) -> Iterator[Wait]:
        held = self.held
        pair = self.pairs.get(step.number)
        behind_it = self._behind(step)
        undo = f"its undo {escape(part.spec.tool) or part.spec.action.value}"
        policy = policy_of(pair, part) if isinstance(pair, Pair) else None
        if held is not None and held[0].number == step.number:
            yield Wait(step=step.number, kind="paused", words=f"{undo} waits: {line(held[1])}", behind=behind_it)
        elif (outage := waited_for(part)) is not None:
            yield Wait(
                step=step.number,
                kind="upstream",
                words=f"{undo} {waits(outage)}: {escape(part.error)}",
                since=outage.since,
                until=outage.again_at,
                behind=behind_it,
            )
        elif part.running:
            since = self._last(step, UndoIntended)
            until = None if since is None or policy is None else since + policy.hard_deadline_s
            overdue, end = self._end(until, part.owner, told=part.overdue)
            words = f"{undo} runs{_since(since)} in {self._process(part.owner)}{end}"
            pid = self._pid(part.owner)
            yield Wait(
                step=step.number,
                kind="undo",
                words=words,
                since=since,
                until=until,
                pid=pid,
                behind=behind_it,
                overdue=overdue,
            )
        elif part.tries and self._is_due(step):
            since = self._last(step, UndoFailed)
            until = None
            of = ""
            if policy is not None:
                of = f" of {policy.retry.attempts}"
                until = None if since is None else since + policy.retry.delay_s(part.attempts or part.tries)
            words = f"attempt {part.attempts}{of} of {undo} failed{_at(since)}, and it is attempted again{_by(until)}"
            yield Wait(step=step.number, kind="undo_attempt", words=words, since=since, until=until, behind=behind_it)
        elif part.state is PartState.UNDO_IN_DOUBT:
            since = self._last(step, UndoFellInDoubt)
            words = f"{undo} has an unknown outcome{_since(since)}"
            yield Wait(step=step.number, kind="undo_doubt", words=words, since=since, behind=behind_it)

    def _is_due(self, step: Step) -> bool:
        """Whether its undo is the one to be sent next: also one of unknown outcome, where that does no harm."""
        turn = next_undo(self.saga)
        return turn is not None and turn.step.number == step.number

    def _behind(self, step: Step) -> tuple[int, ...]:
        return behind(self.saga, step.number)

    def _last(self, step: Step, *kinds: type) -> float | None:
        """When the last such event of a step was stored."""
        found = (
            record.at
            for record in reversed(self.records)
            if isinstance(record.event, kinds) and getattr(record.event, "step", 0) == step.number
        )
        return next(found, None)

    def _pid(self, owner: str) -> int | None:
        return self.alive.get(owner)

    def _process(self, owner: str) -> str:
        pid = self._pid(owner)
        return "a process that is gone" if pid is None else f"pid {self.places[owner]}"


def _since(at: float | None) -> str:
    return "" if at is None else f" since {utc(at)}"


def _at(at: float | None) -> str:
    return "" if at is None else f" at {utc(at)}"


def _by(at: float | None) -> str:
    return "" if at is None else f", at {utc(at)} at the latest"


def _steps(numbers: tuple[int, ...]) -> str:
    word = "step" if len(numbers) == 1 else "steps"
    return f"{word} {', '.join(map(str, numbers))}"
