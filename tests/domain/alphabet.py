"""What a walk may say: every kind of event with the parameters that matter, over a bounded set of tools.

A walk over all traits at once would not end; each `Alphabet` names what it covers, and several of them together cover
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from saga_mcp.domain import events as e
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import (
    WHOLE_SAGA,
    Cancelled,
    Effect,
    ItemKind,
    Kind,
    OnError,
    OnUndoFailure,
    PartAction,
    SettledBy,
)

Binding = tuple[e.PartSpec, ...] | None
"""Undo parts, or None: they cannot be built."""

CALL = e.PartSpec(action=PartAction.CALL, tool="undo", idempotent=True)
ONCE = e.PartSpec(action=PartAction.CALL, tool="undo_once")
PROBED = e.PartSpec(action=PartAction.CALL, tool="undo_probed", has_probe=True)
MANUAL = e.PartSpec(action=PartAction.MANUAL, message="call the shop")
LEAVE = e.PartSpec(action=PartAction.LEAVE)

PLAIN = e.StepPlan(tool="plain", kind=Kind.COMPENSABLE)
PYTHON = e.StepPlan(tool="python", kind=Kind.COMPENSABLE, idempotent=True, safe_if_absent=True)
PROBABLE = e.StepPlan(tool="probable", kind=Kind.COMPENSABLE, has_probe=True, safe_if_absent=True)
GUARDED = e.StepPlan(tool="guarded", kind=Kind.COMPENSABLE, guarded=True, looks_after=True)
PIVOT = e.StepPlan(tool="pivot", kind=Kind.PIVOT)
PROBABLE_PIVOT = e.StepPlan(tool="probable_pivot", kind=Kind.PIVOT, has_probe=True)
HOSTED = e.StepPlan(tool="hosted", kind=Kind.COMPENSABLE, has_probe=True, safe_if_absent=True, host="there")
HOSTED_AGAIN = e.StepPlan(tool="hosted_again", kind=Kind.RETRIABLE, idempotent=True, host="there")
AGAIN = e.StepPlan(tool="again", kind=Kind.RETRIABLE, idempotent=True)
LOOKED_UP = e.StepPlan(tool="looked_up", kind=Kind.RETRIABLE, has_probe=True)

OPENED = e.SagaOpened(realm="r", driver="me")


@dataclass(frozen=True, kw_only=True)
class Alphabet:
    """The bounds of one walk."""

    name: str
    steps: int
    plans: tuple[e.StepPlan, ...]
    bindings: tuple[Binding, ...]
    """What the undo of a step may turn out to be."""
    on_error: OnError = OnError.ABORT
    on_undo_failure: OnUndoFailure = OnUndoFailure.HALT
    savepoints: bool = False
    approvals: bool = False
    registered: bool = False
    """Calls register undos of their own while they run."""
    rare: bool = False
    """Overdue threads, further attempts of compensable steps, invariants and idling."""
    alerts: bool = False
    """Alerts are kept back, and let go."""
    hosts: bool = False
    """Steps of a machine wait for it until people are told."""
    reverted: bool = False
    """Steps of a committed saga are handed over."""
    reverts: bool = False
    """The saga undoes another one, whose steps it takes over."""
    late: bool = True
    """Observations that nobody counts on any more, in a walk over decisions."""
    parked: tuple[ItemKind, ...] = (ItemKind.DEAD_LETTER,)

    @property
    def part_ids(self) -> tuple[str, ...]:
        """Ids of all undo parts a step may have."""
        most = max(len(binding or ()) for binding in self.bindings)
        return (*(str(n) for n in range(1, most + 1)), *(("r1",) if self.registered else ()))

    @property
    def opened(self) -> e.SagaOpened:
        """How the saga begins."""
        return e.SagaOpened(
            realm="r",
            driver="me",
            on_error=self.on_error,
            on_undo_failure=self.on_undo_failure,
            reverts="sg-kept" if self.reverts else "",
        )


def static_events(alphabet: Alphabet) -> tuple[e.Event, ...]:
    """All events that do not name a mark."""
    numbers = range(1, alphabet.steps + 1)
    return (
        alphabet.opened,
        *_saga_events(alphabet),
        *(event for number in numbers for event in _forward_events(alphabet, number)),
        *(event for number in numbers for event in _adoptions(alphabet, number)),
        *(event for number in numbers for event in _outcome_events(alphabet, number)),
        *(event for number in numbers for event in _undo_events(alphabet, number)),
    )


def marked_events(alphabet: Alphabet, saga: Saga) -> Iterator[e.Event]:
    """Aborts back to each mark there is, and to one that there is not."""
    if alphabet.savepoints:
        for seq in (*(mark.seq for mark in saga.savepoints), saga.seq + 9):
            yield e.AbortRequested(cause="agent", target=seq)
            yield e.AbortDeferred(cause="agent", target=seq)


def _saga_events(alphabet: Alphabet) -> Iterator[e.Event]:
    yield e.SagaCommitted(by="agent")
    yield e.SagaCommitted(by="agent", accepted=tuple(range(1, alphabet.steps + 1)))
    yield e.SagaCommitted(by="agent", accepted=(1,))
    if alphabet.reverted:
        yield e.SagaReverted(revert="sg-one", steps=(1,), by="ada")
        yield e.SagaReverted(revert="sg-all", steps=tuple(range(1, alphabet.steps + 1)), by="ada")
    yield e.AbortRequested(cause="agent", target=WHOLE_SAGA)
    yield e.AbortDeferred(cause="agent", target=WHOLE_SAGA)
    yield e.RollbackFinished()
    yield e.SagaClaimed(driver="me")
    yield e.ReadRecorded(tool="look")
    yield e.SagaWiped()
    if alphabet.savepoints:
        yield e.SavepointSet(name="S")
    if alphabet.rare:
        yield e.InvariantViolated(name="rule", step=1)
        yield e.InvariantExempted(name="rule", by="ada")
        yield e.SagaIdled()
    if alphabet.alerts:
        yield e.AlertsParked(reason="HTTP 500")
        yield e.AlertsResumed(by="ada")


def _forward_events(alphabet: Alphabet, n: int) -> Iterator[e.Event]:
    yield e.RollbackReopened(step=n)
    for plan in alphabet.plans:
        yield e.StepIntended(step=n, plan=plan, owner="me")
        if alphabet.approvals:
            yield e.StepAwaitingApproval(step=n, plan=plan)
    if alphabet.approvals:
        yield e.StepApproved(step=n, by="ada")
        yield e.StepCancelled(step=n, why=Cancelled.REJECTED)
    if alphabet.registered:
        yield e.UndoRegistered(step=n, part=CALL)
    yield e.StepAttempted(step=n, owner="me")
    yield e.StepAttemptEnded(step=n, effect=Effect.NONE)
    yield e.StepAttemptEnded(step=n, effect=Effect.UNKNOWN)
    yield e.StepFailed(step=n)
    yield e.StepExhausted(step=n)
    yield e.StepResumed(step=n, by="ada")
    yield e.StepExempted(step=n, by="ada")
    if alphabet.rare:
        yield e.StepOverdue(step=n)
    if alphabet.hosts:
        yield e.StepHostAwaited(step=n)


def _adoptions(alphabet: Alphabet, n: int) -> Iterator[e.Event]:
    """Each step as one that ended after all others, and as one that ended before them."""
    for seq in (1, 100 + n):
        for plan in alphabet.plans if alphabet.reverts else ():
            for main in alphabet.bindings:
                registered = (CALL,) if alphabet.registered else ()
                yield e.StepAdopted(
                    step=n, undoes=n, plan=plan, intent_seq=seq, order=seq, main=main, registered=registered
                )


def _outcome_events(alphabet: Alphabet, n: int) -> Iterator[e.Event]:
    for parts in alphabet.bindings:
        yield e.StepSucceeded(step=n, parts=parts)
        yield e.StepObserved(step=n, parts=parts)
        yield e.StepFellInDoubt(step=n, reason="timeout", running=True, parts=parts)
        yield e.StepFellInDoubt(step=n, reason="deadline", parts=parts)
        yield e.StepFellInDoubt(step=n, reason="error", end_known=True, parts=parts)
        for by in SettledBy:
            yield e.StepSettled(step=n, landed=True, by=by, parts=parts)
    for by in SettledBy:
        yield e.StepSettled(step=n, landed=False, by=by)
    yield e.StepRunEnded(step=n, end_known=True)
    yield e.StepRunEnded(step=n, end_known=False)
    yield e.StepProbesEnded(step=n)


def _undo_events(alphabet: Alphabet, n: int) -> Iterator[e.Event]:
    for part in alphabet.part_ids:
        yield e.UndoIntended(step=n, part=part, owner="me")
        yield e.UndoSucceeded(step=n, part=part)
        yield e.UndoSucceeded(step=n, part=part, unneeded=True)
        yield e.UndoFailed(step=n, part=part, effect=Effect.NONE)
        yield e.UndoFailed(step=n, part=part, effect=Effect.UNKNOWN)
        yield e.UndoFellInDoubt(step=n, part=part, reason="timeout", running=True)
        yield e.UndoFellInDoubt(step=n, part=part, reason="owner_lost")
        yield e.UndoRunEnded(step=n, part=part)
        if alphabet.rare:
            yield e.UndoOverdue(step=n, part=part)
        yield e.UndoProbesEnded(step=n, part=part)
        for by in (SettledBy.PROBE, SettledBy.LATE_ANSWER):
            yield e.UndoSettled(step=n, part=part, done=True, by=by)
            yield e.UndoSettled(step=n, part=part, done=False, by=by)
        for item in alphabet.parked:
            yield e.UndoParked(step=n, part=part, item=item)
    yield e.UndoResumed(step=n, by="ada")
    yield e.UndoResolved(step=n, by="ada")
