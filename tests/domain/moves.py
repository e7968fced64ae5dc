"""What can happen to a saga as the engine sees it: decisions, each with who makes it.

The machine's walk takes events in any order; this one takes only what the decision functions make of an observation,
which is what the log will hold. So it can also ask whether everything comes to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from tests.domain.alphabet import Alphabet

from saga_mcp.domain import approvals, hosts, reverting, saga_decisions, step_decisions, undo_decisions
from saga_mcp.domain import person_decisions as person
from saga_mcp.domain.attention import VERBS, fits, items
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.duties import Abort, Duty, Finish, Probe, ProbeUndo, Resend, RunUndo, SendApproved, duties
from saga_mcp.domain.errors import Refused
from saga_mcp.domain.events import (
    Event,
    SagaCommitted,
    SagaOpened,
    StepIntended,
    StepObserved,
    StepSucceeded,
)
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import fold
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.step_decisions import Landing, Miss, Observation
from saga_mcp.domain.undo_decisions import Parking, UndoMiss
from saga_mcp.domain.values import Effect, ItemKind, JsonValue, PartAction, StepState

ME = "me"
UNSENT = {StepState.AWAITING_APPROVAL, StepState.CANCELLED}


class Who(Enum):
    """Who makes a move."""

    AGENT = auto()
    SYSTEM = auto()
    """A duty, or the outcome of something that runs: it will happen by itself."""
    PERSON = auto()
    LATE = auto()
    """An observation that nobody may count on."""


@dataclass(frozen=True)
class Move:
    """One decision, not yet made."""

    who: Who
    name: str
    decide: Callable[[], tuple[Event, ...]]


def driving(alphabet: Alphabet) -> Driving:
    """A driver that builds every undo without a result in the last way the alphabet knows."""

    def bind(_step: Step) -> BoundUndo:
        return BoundUndo(parts=alphabet.bindings[-1])

    return Driving(driver=ME, bind=bind)


ORDER = reverting.RevertOrder(revert="sg-revert", by="ada", window_s=1.0)


def kept(alphabet: Alphabet) -> Iterator[Saga]:
    """Committed sagas, their last step undone in each way that the alphabet knows."""
    plan = alphabet.plans[0]
    for parts in alphabet.bindings:
        events: list[Event] = [SagaOpened(realm="r", driver=ME)]
        for n in range(1, alphabet.steps + 1):
            undo = parts if n == alphabet.steps else alphabet.bindings[0]
            events += [StepIntended(step=n, plan=plan, owner=ME), StepSucceeded(step=n, parts=undo)]
            events += [StepObserved(step=n, parts=undo)] if plan.looks_after else []
        yield fold(Saga(id="sg-kept"), [*events, SagaCommitted(by="agent")])


def moves(alphabet: Alphabet, saga: Saga) -> Iterator[Move]:
    """Everything that may be decided now."""
    return (move for move in _all_moves(alphabet, saga) if alphabet.late or move.who is not Who.LATE)


def _all_moves(alphabet: Alphabet, saga: Saga) -> Iterator[Move]:
    yield from _agent(alphabet, saga)
    if not saga.opened:
        return
    yield Move(Who.LATE, "wipe", partial(saga_decisions.wipe, saga))
    drive = driving(alphabet)
    if alphabet.hosts:
        numbers = range(1, alphabet.steps + 1)
        yield Move(Who.LATE, "wait for machines", lambda: hosts.await_hosts(saga, numbers))
        yield Move(Who.LATE, "give back", lambda: saga_decisions.give_back(saga, ME, "here"))
    for duty in duties(saga):
        yield from _duty(alphabet, saga, duty)
    for step in saga.steps:
        if step.state not in UNSENT:
            yield from _observations(alphabet, saga, step)
        for part in step.parts or ():
            yield from _undo_observations(saga, step, part, drive, rare=alphabet.rare)
    yield from verbs(alphabet, saga)


def _agent(alphabet: Alphabet, saga: Saga) -> Iterator[Move]:
    drive = driving(alphabet)
    if alphabet.reverts:
        for old in kept(alphabet) if not saga.opened else ():
            yield Move(Who.AGENT, "revert", partial(_reverting, old, drive))
        return
    if alphabet.reverted:
        yield Move(Who.AGENT, "be reverted", lambda: reverting.revert(saga, ORDER, drive).noted)
    if len(saga.steps) < alphabet.steps:
        for plan in alphabet.plans:
            yield Move(
                Who.AGENT,
                f"begin {plan.tool}",
                partial(saga_decisions.begin_step, saga, plan, ME, opening=alphabet.opened),
            )
            if alphabet.approvals:
                yield Move(
                    Who.AGENT, f"ask for {plan.tool}", partial(approvals.ask, saga, plan, opening=alphabet.opened)
                )
    if not saga.opened:
        return
    failed = tuple(step.number for step in saga.steps if step.state is StepState.FAILED)
    yield Move(Who.AGENT, "commit", lambda: saga_decisions.commit(saga, by="agent"))
    yield Move(Who.AGENT, "commit anyway", lambda: saga_decisions.commit(saga, by="agent", accept_failed=failed))
    if alphabet.alerts:
        yield Move(Who.LATE, "keep alerts back", lambda: saga_decisions.park_alerts(saga, "HTTP 500"))
    yield Move(Who.AGENT, "abort", lambda: saga_decisions.request_abort(saga, drive, cause="agent"))
    if alphabet.savepoints:
        yield Move(Who.AGENT, "mark", lambda: saga_decisions.set_savepoint(saga, "S"))
        yield Move(
            Who.AGENT, "abort to S", lambda: saga_decisions.request_abort(saga, drive, cause="agent", to_savepoint="S")
        )


def _reverting(old: Saga, drive: Driving) -> tuple[Event, ...]:
    return reverting.revert(old, ORDER, drive).events


def _duty(alphabet: Alphabet, saga: Saga, duty: Duty) -> Iterator[Move]:
    drive = driving(alphabet)
    match duty:
        case Abort() | Finish():
            yield Move(Who.SYSTEM, "as due", lambda: saga_decisions.abort_as_due(saga, drive))
        case Resend(step=step):
            n = step.number
            yield Move(Who.SYSTEM, f"resend {n}", lambda: step_decisions.attempt_again(saga, n, ME))
            yield Move(Who.SYSTEM, f"give up {n}", lambda: step_decisions.give_up_retriable(saga, n, "no"))
        case SendApproved(step=step):
            n = step.number
            yield Move(Who.SYSTEM, f"send {n}", lambda: approvals.begin_allowed(saga, n, ME, None))
            yield Move(Who.SYSTEM, f"cannot send {n}", lambda: approvals.give_up_allowed(saga, n, "no", drive))
        case Probe(step=step):
            yield from _probes(alphabet, saga, step, Who.SYSTEM)
        case RunUndo(step=step, part=part):
            yield _run_undo(saga, step, part, drive)
            dead = Parking(item=ItemKind.DEAD_LETTER, message="no")
            yield Move(
                Who.SYSTEM,
                f"park {step.number}.{part.id}",
                lambda: undo_decisions.undo_parked(saga, step.number, part.id, dead, drive),
            )
            if step.plan.guarded and part.spec.action is PartAction.CALL:
                yield from _guard(saga, step, part, drive)
        case ProbeUndo(step=step, part=part):
            yield from _undo_probes(saga, step, part, drive, Who.SYSTEM)


def _guard(saga: Saga, step: Step, part: Part, drive: Driving) -> Iterator[Move]:
    """What else than "as the step left it" a guard may find."""
    n = step.number
    yield Move(Who.SYSTEM, f"guard {n}: nothing to do", lambda: undo_decisions.undo_unneeded(saga, n, drive))
    changed = Parking(item=ItemKind.GUARD_CONFLICT, message="changed")
    yield Move(Who.SYSTEM, f"guard {n}: changed", lambda: undo_decisions.undo_parked(saga, n, part.id, changed, drive))
    blind = UndoMiss(effect=Effect.NONE, error="no")
    for parking in (None, Parking(item=ItemKind.DEAD_LETTER, message="no")):
        yield Move(
            Who.SYSTEM,
            f"guard {n}: blind",
            partial(undo_decisions.undo_unsent, saga, n, part.id, ME, blind, drive, parking=parking),
        )


def _run_undo(saga: Saga, step: Step, part: Part, drive: Driving) -> Move:
    n = step.number
    match part.spec.action:
        case PartAction.CALL:
            return Move(Who.SYSTEM, f"undo {n}.{part.id}", lambda: undo_decisions.undo_intended(saga, n, part.id, ME))
        case PartAction.MANUAL:
            ask = Parking(item=ItemKind.MANUAL_UNDO, message="by hand")
            return Move(Who.SYSTEM, f"ask {n}", lambda: undo_decisions.undo_parked(saga, n, part.id, ask, drive))
        case PartAction.LEAVE | PartAction.NOTHING:
            return Move(Who.SYSTEM, f"leave {n}", lambda: undo_decisions.undo_done(saga, n, part.id, "left", drive))


def _probes(alphabet: Alphabet, saga: Saga, step: Step, who: Who) -> Iterator[Move]:
    n, drive = step.number, driving(alphabet)
    for parts in alphabet.bindings:
        landing = Landing(result=None, undo=BoundUndo(parts=parts))
        yield Move(who, f"probe {n}: landed", partial(step_decisions.probed_landed, saga, n, landing, drive))
    yield Move(who, f"probe {n}: absent", lambda: step_decisions.probed_absent(saga, n, drive))
    yield Move(who, f"probe {n}: nothing", lambda: step_decisions.probes_ended(saga, n, drive))


def _undo_probes(saga: Saga, step: Step, part: Part, drive: Driving, who: Who) -> Iterator[Move]:
    for done in (True, False, None):
        yield Move(
            who,
            f"probe undo {step.number}: {done}",
            partial(undo_decisions.undo_probed, saga, step.number, part.id, done=done, driving=drive),
        )


def _landings(alphabet: Alphabet, result: JsonValue = None) -> Iterator[Landing]:
    for parts in alphabet.bindings:
        for violated in ((), ("rule",)) if alphabet.rare else ((),):
            yield Landing(result=result, undo=BoundUndo(parts=parts), violated=violated)


def _observations(alphabet: Alphabet, saga: Saga, step: Step) -> Iterator[Move]:
    """What may be heard of a call that was sent: expected while it runs, possible ever after."""
    n, drive = step.number, driving(alphabet)
    runs = Who.SYSTEM if step.running else Who.LATE
    for landing in _landings(alphabet):
        yield Move(runs, f"{n} landed", partial(step_decisions.landed, saga, n, landing, drive))
    for parts in alphabet.bindings if step.plan.looks_after else ():
        looked = Observation(undo=BoundUndo(parts=parts))
        yield Move(runs, f"{n} landed, and looked at", partial(step_decisions.observed, saga, n, looked, drive))
    if step.running and not step.unknown_attempts:
        unsent = Miss(effect=Effect.NONE, error="no", sent=False)
        yield Move(runs, f"{n} never went out", partial(step_decisions.missed, saga, n, unsent, drive))
    for effect in Effect:
        for more in (False, True):
            miss = Miss(effect=effect, error="no", more=more)
            yield Move(runs, f"{n} missed {effect}", partial(step_decisions.missed, saga, n, miss, drive))
    yield Move(runs, f"{n} timed out", lambda: step_decisions.goes_on(saga, n, reason="timeout", driving=drive))
    for end_known in (True, False):
        yield Move(
            runs,
            f"{n} lost",
            partial(step_decisions.run_lost, saga, n, reason="transport_lost", end_known=end_known, driving=drive),
        )
    if alphabet.rare:
        yield Move(runs, f"{n} overdue", lambda: step_decisions.overdue(saga, n, drive))
    yield Move(Who.LATE, f"{n} waited", lambda: step_decisions.abort_after_wait(saga, n, drive))
    between = Who.SYSTEM if step.state is StepState.INTENDED and not step.exhausted else Who.LATE
    yield Move(between, f"{n} again", lambda: step_decisions.attempt_again(saga, n, ME))
    yield from _probes(alphabet, saga, step, Who.LATE)


def _undo_observations(saga: Saga, step: Step, part: Part, drive: Driving, *, rare: bool) -> Iterator[Move]:
    n = step.number
    if not part.tries and part.generation == 0:
        return
    runs = Who.SYSTEM if part.running else Who.LATE
    yield Move(runs, f"undo {n} done", lambda: undo_decisions.undo_done(saga, n, part.id, "", drive))
    for effect in Effect:
        miss = UndoMiss(effect=effect, error="no")
        for item in (None, ItemKind.DEAD_LETTER, ItemKind.GUARD_CONFLICT):
            parking = None if item is None else Parking(item=item, message="no")
            yield Move(
                runs,
                f"undo {n} missed {effect} {item}",
                partial(undo_decisions.undo_missed, saga, n, part.id, miss, drive, parking=parking),
            )
    if rare:
        yield Move(runs, f"undo {n} overdue", lambda: undo_decisions.undo_overdue(saga, n, part.id))
    yield Move(runs, f"undo {n} timed out", lambda: undo_decisions.undo_goes_on(saga, n, part.id, "timeout"))
    yield Move(runs, f"undo {n} lost", lambda: undo_decisions.undo_lost(saga, n, part.id, "owner_lost", drive))
    yield from _undo_probes(saga, step, part, drive, Who.LATE)


def verbs(alphabet: Alphabet, saga: Saga) -> Iterator[Move]:
    """Every verb of every item that waits (S14.3), named `item: verb`."""
    for item in items(saga):
        for verb in (verb for verb in VERBS[item.kind] if fits(item.kind, verb, has_undo=item.has_undo)):
            for decide in _verb(alphabet, saga, item.step, item.kind, verb):
                yield Move(Who.PERSON, f"{item.kind}: {verb}", decide)


def _verb(
    alphabet: Alphabet, saga: Saga, n: int, kind: ItemKind, verb: str
) -> Iterator[Callable[[], tuple[Event, ...]]]:
    drive = driving(alphabet)
    match verb:
        case "probe":
            step = saga.step(n)
            part = step.next_part
            probes = (
                _undo_probes(saga, step, part, drive, Who.PERSON)
                if kind is ItemKind.UNDO_IN_DOUBT and part is not None
                else _probes(alphabet, saga, step, Who.PERSON)
            )
            yield from (move.decide for move in probes)
        case "resolve --landed" | "resolve --landed --result":
            for landing in _landings(alphabet, result=1):
                yield partial(person.resolve_landed, saga, n, landing, by="ada", note="", driving=drive)
        case "resolve --absent":
            yield lambda: person.resolve_absent(saga, n, by="ada", note="", driving=drive)
        case "resolve --undone":
            yield lambda: person.resolve_undone(saga, n, by="ada", note="", driving=drive)
        case "resolve --overwrite":
            yield lambda: person.overwrite(saga, n, by="ada", note="", driving=drive)
        case "exempt" | "resolve --keep":
            yield lambda: person.exempt(saga, n, by="ada", note="", driving=drive)
        case "retry":
            yield lambda: person.retry(saga, n, by="ada", note="", driving=drive)
        case "approve":
            yield lambda: approvals.approve(saga, n, by="ada", note="", now=0.0)
        case "reject":
            yield lambda: approvals.reject(saga, n, by="ada", note="", driving=drive)
        case "commit":
            yield lambda: _or_nothing(lambda: saga_decisions.commit(saga, by="ada"))
        case "abort":
            yield lambda: _or_nothing(lambda: saga_decisions.request_abort(saga, drive, cause="operator", by="ada"))
        case "export":
            return
        case _:
            message = f"nobody knows how to {verb}"
            raise AssertionError(message)


def _or_nothing(decide: Callable[[], tuple[Event, ...]]) -> tuple[Event, ...]:
    try:
        return decide()
    except Refused:
        return ()
