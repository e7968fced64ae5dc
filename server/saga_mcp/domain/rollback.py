"""Order of the rollback, and what is in its way (SEMANTICS.md S5, S6).

Pure questions over a `Saga`. The machine asks them to refuse illegal events, the driver to find its next move and the
attention list to name what waits for a person: one answer serves all three, so they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import (
    ItemKind,
    Kind,
    OnError,
    OnUndoFailure,
    PartState,
    Phase,
    StepState,
)


class Readiness(StrEnum):
    """Whether a step's undo can go on now."""

    READY = "ready"
    BUSY = "busy"
    """Something is running or scheduled that will settle it."""
    STUCK = "stuck"
    """Only a person, or a late answer, can."""


@dataclass(frozen=True, slots=True)
class NextUndo:
    """The undo part whose turn it is."""

    step: Step
    part: Part


def in_scope(saga: Saga, step: Step) -> bool:
    """Whether the rollback of `saga` covers `step`: its intent came after the target."""
    return step.intent_seq > saga.target


def readiness(step: Step) -> Readiness:
    """Whether the undo of an unsettled step could go on, were it its turn."""
    if step.overdue or step.late:
        return Readiness.STUCK
    if step.running:
        return Readiness.BUSY
    if step.state is StepState.IN_DOUBT:
        if step.probe_due:
            return Readiness.BUSY
        if not step.may_undo_blind:
            return Readiness.STUCK
    part = step.next_part
    # Without an undo (none holds, or it cannot be built) only a person can say what is to become of the step.
    return Readiness.STUCK if part is None else part_readiness(part)


def part_readiness(part: Part) -> Readiness:
    """Whether one undo part can be sent now."""
    match part.state:
        case PartState.PENDING:
            return Readiness.READY
        case PartState.INTENDED:
            return Readiness.BUSY
        case PartState.UNDO_IN_DOUBT:
            if part.overdue:
                return Readiness.STUCK
            if part.running or undo_probe_due(part):
                return Readiness.BUSY
            return Readiness.READY if part.spec.idempotent else Readiness.STUCK
        case PartState.WAITING:
            return Readiness.STUCK
        case PartState.DONE:  # pragma: no cover - `next_part` never returns one
            return Readiness.STUCK


def undo_probe_due(part: Part) -> bool:
    """Whether a probe could still settle an in-doubt undo that may not simply be sent again (S6.4)."""
    return part.state is PartState.UNDO_IN_DOUBT and part.spec.has_probe and not part.probes_ended


def undo_probed_now(part: Part) -> bool:
    """Whether it is asked now: of a call elsewhere also while it counts as running, for nobody hears its answer."""
    return undo_probe_due(part) and (not part.running or part.spec.outlives_us)


def waits_for_calls(saga: Saga) -> bool:
    """Whether a rollback still waits for forward actions to end (DESIGN.md rule 5)."""
    return saga.running > 0 or saga.unended > 0


def frontier(saga: Saga) -> tuple[Step, Readiness] | None:
    """The step whose undo is at turn, and whether it can go on; None: nothing in scope is left, or calls still run.

    Descending order key, one at a time; a stuck step halts the older ones unless the saga continues past it (S5.2,
    S5.4). With `continue` a stuck step is reported only if no other can go on; nothing is undone across a pivot that
    landed late.
    """
    if saga.phase is not Phase.COMPENSATING or waits_for_calls(saga):
        return None
    if saga.undoing:
        # One at a time: also one that nobody can stop holds up all the others.
        flight = saga.step(saga.undoing)
        return flight, Readiness.STUCK if flight.undo_overdue else Readiness.BUSY
    stuck: Step | None = None
    for number in reversed(saga.undo_stack):
        step = saga.step(number)
        if not in_scope(saga, step):
            break
        if step.settled:
            continue
        ready = readiness(step)
        if ready is not Readiness.STUCK:
            return step, ready
        stuck = stuck or step
        if saga.on_undo_failure is OnUndoFailure.HALT or step.kind is Kind.PIVOT:
            break
    return None if stuck is None else (stuck, Readiness.STUCK)


def next_undo(saga: Saga) -> NextUndo | None:
    """The undo part to run now, or None."""
    turn = frontier(saga)
    if turn is None or turn[1] is not Readiness.READY:
        return None
    part = turn[0].next_part
    return None if part is None else NextUndo(turn[0], part)


def rollback_done(saga: Saga) -> bool:
    """Whether everything in the rollback's scope is settled, so that it may finish."""
    if saga.phase is not Phase.COMPENSATING or waits_for_calls(saga):
        return False
    if any(step.state is StepState.AWAITING_APPROVAL and in_scope(saga, step) for step in saga.loose_steps):
        return False
    top = saga.step(saga.undo_stack[-1]) if saga.undo_stack else None
    return top is None or not in_scope(saga, top)


def step_item(saga: Saga, step: Step) -> ItemKind | None:
    """What waits for a person at this step, if anything does (S14.3)."""
    if step.state is StepState.AWAITING_APPROVAL:
        return None if step.approved else ItemKind.APPROVAL
    if step.late:
        return ItemKind.LATE_EFFECT
    if step.overdue:
        return ItemKind.IN_DOUBT
    if step.exhausted:
        return ItemKind.RETRIABLE_EXHAUSTED
    if step.host_awaited:  # a probe there could tell; so can a person
        return ItemKind.IN_DOUBT if step.probe_due else ItemKind.NEEDS_HOST
    if step.state is StepState.IN_DOUBT:
        return ItemKind.IN_DOUBT if _doubt_is_stuck(saga, step) else None
    if step.state in {StepState.SUCCEEDED, StepState.COMPENSATING}:
        return _undo_item(saga, step)
    return None


def _doubt_is_stuck(saga: Saga, step: Step) -> bool:
    if step.running or step.probe_due:
        return False
    if saga.phase is Phase.COMPENSATING:
        return not step.may_undo_blind
    if step.kind is Kind.RETRIABLE:
        return not step.plan.idempotent  # otherwise it is sent again
    # Before the abort that the policy schedules, nobody has to look (S4.2); a pivot in doubt blocks that abort.
    return saga.on_error is OnError.HOLD or step.kind is Kind.PIVOT or saga.pivot > 0


def _undo_item(saga: Saga, step: Step) -> ItemKind | None:
    if step.kind is not Kind.COMPENSABLE or saga.phase is Phase.COMMITTED or step.running:
        return None
    part = step.next_part
    if step.parts is None or (part is None and saga.phase is Phase.COMPENSATING):
        return ItemKind.CANNOT_BUILD
    if part is None:
        return None
    if part.state is PartState.WAITING:
        return part.item
    if part.state is PartState.UNDO_IN_DOUBT and part_readiness(part) is Readiness.STUCK:
        return ItemKind.UNDO_IN_DOUBT
    return None
