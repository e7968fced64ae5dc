"""What is due now to bring a saga to rest: the driver's next moves, as a pure function of the state.

Live driving, a retry after a crash and the takeover of a dead process's work are the same loop over these duties (DESIGN.md
section 7): read the state, do what is due, append the outcome. Times are not decided here; the engine knows how long a back-off
or a probe schedule is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from saga_mcp.domain.events import (
    Event,
    PartSpec,
    StepFailed,
    StepFellInDoubt,
    StepRunEnded,
    UndoFellInDoubt,
    UndoRunEnded,
)
from saga_mcp.domain.rollback import Readiness, frontier, next_undo, rollback_done, undo_probe_due
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import Kind, OnError, PartState, Phase, StepState


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask whether an in-doubt step landed."""

    step: Step


@dataclass(frozen=True, slots=True)
class ProbeUndo:
    """Ask whether an in-doubt undo took effect."""

    step: Step
    part: Part


@dataclass(frozen=True, slots=True)
class Resend:
    """Send a retriable step again, with the same key (S7.2)."""

    step: Step


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort the saga, as its policy or a deferred wish says (S4.2, S7.1)."""

    cause: str
    target: int
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunUndo:
    """Run, or settle without a call, the undo part whose turn it is."""

    step: Step
    part: Part


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to undo: end the rollback."""


Duty: TypeAlias = Probe | ProbeUndo | Resend | Abort | RunUndo | Finish


def duties(saga: Saga) -> tuple[Duty, ...]:
    """What is due now. Empty: the saga is at rest, waits for a running call, or waits for a person."""
    match saga.phase:
        case Phase.ACTIVE:
            return tuple(_active(saga))
        case Phase.COMPENSATING:
            return tuple(_compensating(saga))
        case Phase.COMMITTED | Phase.COMPENSATED:
            return ()


def _active(saga: Saga) -> Iterator[Duty]:
    wanted = saga.abort_wanted
    if wanted is not None and not saga.pivot:
        yield Abort(wanted.cause, wanted.target, wanted.by, wanted.reason)
        return
    if not (saga.in_doubt or saga.unended):
        return
    for step in saga.steps:
        if step.running or step.exhausted:
            continue
        if step.probe_due:
            yield Probe(step)
        elif step.state is StepState.IN_DOUBT and step.kind is not Kind.RETRIABLE:
            if saga.on_error is OnError.ABORT and not saga.pivot:
                yield Abort(f"step_failed:{step.number}", 0)
        elif step.kind is Kind.RETRIABLE and step.state in {StepState.IN_DOUBT, StepState.INTENDED}:
            yield Resend(step)


def _compensating(saga: Saga) -> Iterator[Duty]:
    if saga.in_doubt:
        yield from (Probe(step) for step in saga.steps if step.probe_due and not step.running)
    if rollback_done(saga):
        yield Finish()
        return
    turn = next_undo(saga)
    if turn is not None:
        yield RunUndo(turn.step, turn.part)
        return
    at = frontier(saga)
    part = at[0].next_part if at is not None else None
    if at is not None and part is not None and not part.running and undo_probe_due(part):
        yield ProbeUndo(at[0], part)


def busy(saga: Saga) -> bool:
    """Whether something runs or is due, so that somebody has to drive the saga."""
    if saga.running or saga.unended or any(step.running for step in _overdue(saga)):
        return not _all_exhausted(saga)
    if saga.phase is Phase.COMPENSATING:
        at = frontier(saga)
        if at is not None and at[1] is not Readiness.STUCK:
            return True
    return bool(duties(saga))


def _overdue(saga: Saga) -> Iterator[Step]:
    return (step for step in saga.steps if step.overdue) if saga.in_doubt else iter(())


def _all_exhausted(saga: Saga) -> bool:
    """Only retriable steps that wait for a person are left."""
    return not saga.running and all(step.exhausted for step in saga.steps if step.state is StepState.INTENDED)


def owners(saga: Saga) -> frozenset[str]:
    """Owner ids of everything that runs or is between two attempts, and of the driver."""
    found = {saga.driver}
    if saga.running or saga.unended or saga.in_doubt:
        found.update(step.owner for step in saga.steps if step.running or step.state is StepState.INTENDED)
    at = _part_in_flight(saga)
    if at is not None:
        found.add(at[1].owner)
    return frozenset(found - {""})


def _part_in_flight(saga: Saga) -> tuple[Step, Part] | None:
    if saga.phase is not Phase.COMPENSATING:
        return None
    for number in reversed(saga.undo_stack):
        step = saga.step(number)
        part = step.next_part
        if part is not None and (part.state is PartState.INTENDED or part.running):
            return step, part
    return None


BoundUndo: TypeAlias = tuple[tuple[PartSpec, ...] | None, str]
"""Undo parts, or None and the reason why they cannot be built."""


def lost(saga: Saga, dead: Callable[[str], bool], bind: Callable[[Step], BoundUndo]) -> tuple[Event, ...]:
    """What became of actions whose owner is proved dead (S3.5): only these fall in doubt.

    A tool that ran inside the dead process has ended with it, so its end is known (S3.3).

    Args:
        saga: the current state.
        dead: whether an owner id is proved dead.
        bind: builds the undo of a step that falls in doubt, without a result (S6.1).
    """
    events: list[Event] = []
    if saga.running or saga.unended or saga.in_doubt:
        for step in saga.steps:
            if (step.running or step.state is StepState.INTENDED) and not step.exhausted and dead(step.owner):
                events.extend(_lost_step(step, bind))
    at = _part_in_flight(saga)
    if at is not None and dead(at[1].owner):
        step, part = at
        if part.state is PartState.INTENDED:
            events.append(UndoFellInDoubt(step=step.number, part=part.id, reason="owner_lost"))
        else:
            events.append(UndoRunEnded(step=step.number, part=part.id, error="owner_lost"))
    return tuple(events)


def _lost_step(step: Step, bind: Callable[[Step], BoundUndo]) -> Iterator[Event]:
    if step.state is not StepState.INTENDED:
        yield StepRunEnded(step=step.number, end_known=True, error=step.error or "owner_lost")
    elif step.running or step.unknown_attempts:
        parts, build_error = bind(step)
        yield StepFellInDoubt(
            step=step.number, reason="owner_lost", end_known=True, parts=parts, build_error=build_error
        )
    elif step.kind is not Kind.RETRIABLE:
        # It was between two attempts, each known to have had no effect.
        yield StepFailed(step=step.number, error=step.error)
