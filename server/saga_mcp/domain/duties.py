"""What is due now to bring a saga to rest: the driver's next moves, as a pure function of the state.

Live driving, a retry after a crash and the takeover of a dead process's work are the same loop over these duties
(DESIGN.md section 7): read the state, do what is due, append the outcome. Times are not decided here; the engine
knows how long a back-off or a probe schedule is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from saga_mcp.domain.on_step import may_be_sent
from saga_mcp.domain.rollback import frontier, next_undo, rollback_done, undo_probed_now
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import WHOLE_SAGA, Kind, OnError, Phase, StepState


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
class SendApproved:
    """Send the stored call that a person allowed (S9.1)."""

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


Duty: TypeAlias = Probe | ProbeUndo | Resend | SendApproved | Abort | RunUndo | Finish


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
    for step in saga.loose_steps:
        if step.probed_now and not step.exhausted:
            yield Probe(step)
        if step.running or step.exhausted or step.probe_due:
            continue
        if step.state is StepState.AWAITING_APPROVAL:
            if step.approved and may_be_sent(saga, step):
                yield SendApproved(step)
        elif step.state is StepState.IN_DOUBT and step.kind is not Kind.RETRIABLE:
            if saga.on_error is OnError.ABORT and not saga.pivot:
                yield Abort(f"step_failed:{step.number}", WHOLE_SAGA)
                return
        elif step.kind is Kind.RETRIABLE and _may_resend(step):
            yield Resend(step)


def _may_resend(step: Step) -> bool:
    if step.state is StepState.INTENDED:
        return True
    return step.state is StepState.IN_DOUBT and step.plan.idempotent


def _compensating(saga: Saga) -> Iterator[Duty]:
    if saga.in_doubt:
        yield from (Probe(step) for step in saga.loose_steps if step.probed_now)
    if rollback_done(saga):
        yield Finish()
        return
    turn = next_undo(saga)
    if turn is not None:
        yield RunUndo(turn.step, turn.part)
        return
    at = frontier(saga)
    part = at[0].next_part if at is not None else None
    if at is not None and part is not None and undo_probed_now(part):
        yield ProbeUndo(at[0], part)


def busy(saga: Saga) -> bool:
    """Whether something runs or is due, so that somebody has to drive the saga."""
    if saga.running or saga.undoing:
        return True
    if not saga.final and any(step.overdue or _between_attempts(step) for step in saga.loose_steps):
        return True
    return bool(duties(saga))


def _between_attempts(step: Step) -> bool:
    return step.state is StepState.INTENDED and not step.exhausted


def owners(saga: Saga) -> frozenset[str]:
    """Owner ids of everything that runs or is between two attempts, and of the driver."""
    found = {saga.driver}
    if not saga.final:
        found.update(step.owner for step in saga.loose_steps if step.running or _between_attempts(step))
    if saga.undoing:
        found.update(part.owner for part in saga.step(saga.undoing).parts or () if part.running)
    return frozenset(found - {""})
