"""Transitions of a step's undo: attempts, doubt, dead letters, and a person's hand (SEMANTICS.md S5, S6)."""

from __future__ import annotations

from typing import assert_never

from saga_mcp.domain.copying import replace
from saga_mcp.domain.events import (
    UndoEvent,
    UndoFailed,
    UndoFellInDoubt,
    UndoIntended,
    UndoOverdue,
    UndoParked,
    UndoProbesEnded,
    UndoResolved,
    UndoResumed,
    UndoRunEnded,
    UndoSettled,
    UndoSucceeded,
)
from saga_mcp.domain.rollback import next_undo, step_item, undo_probe_due
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.transition import put_step, require, step_of
from saga_mcp.domain.undo_parts import next_generation, part_of, with_part
from saga_mcp.domain.values import (
    SETTLED_STEPS,
    Effect,
    ItemKind,
    PartAction,
    PartState,
    Phase,
    SettledBy,
    StepState,
)

PARKABLE = frozenset(
    {
        ItemKind.DEAD_LETTER,
        ItemKind.TARGET_CHANGED,
        ItemKind.MANUAL_UNDO,
        ItemKind.CANNOT_BUILD,
        ItemKind.GUARD_CONFLICT,
        ItemKind.UNDO_IN_DOUBT,
    }
)
"""Items that hold an undo part."""
RESUMABLE = frozenset({ItemKind.DEAD_LETTER, ItemKind.TARGET_CHANGED, ItemKind.UNDO_IN_DOUBT, ItemKind.GUARD_CONFLICT})
"""Items that `retry` (or `resolve --overwrite`) settles (S14.3)."""
RESOLVABLE = frozenset(
    {
        ItemKind.DEAD_LETTER,
        ItemKind.TARGET_CHANGED,
        ItemKind.NEEDS_HOST,
        ItemKind.UNDO_IN_DOUBT,
        ItemKind.MANUAL_UNDO,
        ItemKind.CANNOT_BUILD,
        ItemKind.LATE_EFFECT,
    }
)
"""Items that `resolve --undone` settles (S14.3)."""


def apply_undo_event(saga: Saga, event: UndoEvent) -> Saga:
    """Return the saga after an event of a step's undo.

    Raises:
        IllegalTransition: the event is not allowed in this state.
    """
    step = step_of(saga, event.step)
    if isinstance(event, UndoResumed):
        return _resume(saga, step, event)
    if isinstance(event, UndoResolved):
        return _resolve(saga, step, event)
    part = part_of(step, event.part)
    require(part is not None, f"step {step.number} has no undo part {event.part}")
    assert part is not None  # noqa: S101 - `require` raised
    match event:
        case UndoIntended():
            _require_turn(saga, step, part)
            require(part.spec.action is PartAction.CALL, "only a call is sent")
            moved = replace(
                part,
                state=PartState.INTENDED,
                running=True,
                attempts=part.attempts + 1,
                tries=part.tries + 1,
                owner=event.owner,
                probes_ended=False,
            )
        case UndoSucceeded():
            if part.state is PartState.PENDING:
                _require_turn(saga, step, part)
                unsent = part.spec.action in {PartAction.LEAVE, PartAction.NOTHING}
                require(step.plan.guarded if event.unneeded else unsent, "it was not sent")
            else:
                require(part.state is PartState.INTENDED, f"the part is {part.state}")
            moved = replace(_done(part), unneeded=event.unneeded)
        case UndoFailed():
            require(part.state is PartState.INTENDED, f"the part is {part.state}")
            state = PartState.PENDING if event.effect is Effect.NONE else PartState.UNDO_IN_DOUBT
            attempts = part.attempts if event.counted else part.attempts - 1
            moved = replace(part, state=state, running=False, attempts=attempts, outage=event.outage, error=event.error)
        case UndoFellInDoubt():
            require(part.state is PartState.INTENDED, f"the part is {part.state}")
            error = event.error or event.reason
            moved = replace(part, state=PartState.UNDO_IN_DOUBT, running=event.running, outage=None, error=error)
        case UndoRunEnded():
            require(part.state is PartState.UNDO_IN_DOUBT and part.running, "the undo is not running")
            moved = replace(part, running=False, overdue=False, error=event.error or part.error)
        case UndoOverdue():
            require(part.state is PartState.UNDO_IN_DOUBT and part.running and not part.overdue, "it is not running")
            moved = replace(part, overdue=True)
        case UndoProbesEnded():
            require(undo_probe_due(part) and not part.running, "no probe is due")
            moved = replace(part, probes_ended=True)
        case UndoSettled():
            require(open_to_settling(part, event.by, done=event.done), f"the part is {part.state}")
            state = PartState.DONE if event.done else PartState.PENDING
            moved = replace(part, running=False, overdue=False, state=state, item=None)
        case UndoParked():
            require(event.item in PARKABLE, f"an undo does not wait as {event.item}")
            require(parkable(saga, step, part), "it is not its turn, or it is under way")
            moved = replace(part, state=PartState.WAITING, item=event.item, urgency=event.urgency, error=event.message)
        case _:  # pragma: no cover
            assert_never(event)
    return put_step(saga, _advance(step, moved))


def _require_turn(saga: Saga, step: Step, part: Part) -> None:
    turn = next_undo(saga)
    require(turn is not None and turn.step.number == step.number, f"it is not the turn of step {step.number}")
    require(turn is not None and turn.part.id == part.id, f"it is not the turn of part {part.id}")


def parkable(saga: Saga, step: Step, part: Part) -> bool:
    """Whether an undo part may be handed to a person now: it was sent and has ended, or it is its turn."""
    if saga.phase is not Phase.COMPENSATING or step.state in SETTLED_STEPS or part.running:
        return False
    if part.state is PartState.UNDO_IN_DOUBT or (part.state is PartState.PENDING and part.tries):
        return True
    turn = next_undo(saga)
    return turn is not None and (turn.step.number, turn.part.id) == (step.number, part.id)


def open_to_settling(part: Part, by: SettledBy, *, done: bool) -> bool:
    """Whether a late answer or a probe can say what an undo attempt did (S3.6).

    A late success counts whatever became of its part meanwhile. Of a call that still runs a probe says nothing, unless
    that is elsewhere, where nobody hears its answer, and has had its effect.
    """
    doubtful = part.state is PartState.UNDO_IN_DOUBT or part.item is ItemKind.UNDO_IN_DOUBT
    if by is SettledBy.PROBE:
        return doubtful and (not part.running or (done and part.spec.outlives_us))
    given_up = part.state in {PartState.PENDING, PartState.WAITING} and part.tries > 0
    return doubtful or (done and given_up)


def _done(part: Part) -> Part:
    return replace(part, running=False, overdue=False, state=PartState.DONE, item=None)


def _advance(step: Step, moved: Part) -> Step:
    """Put the part back; with the last part done the step is undone.

    An undo during which the effect landed begins again as soon as it has ended.
    """
    parts = with_part(step, moved)
    if step.state in SETTLED_STEPS:
        return replace(step, parts=parts)  # exempted meanwhile: what became of the undo is only recorded
    if step.redo and not moved.running:
        return next_generation(replace(step, parts=parts, state=StepState.COMPENSATING))
    done = all(part.state is PartState.DONE for part in parts)
    return replace(step, parts=parts, state=StepState.COMPENSATED if done else StepState.COMPENSATING)


def _resume(saga: Saga, step: Step, event: UndoResumed) -> Saga:
    item = step_item(saga, step)
    require(item in RESUMABLE and saga.phase is Phase.COMPENSATING, "nothing here can be tried again")
    part = step.next_part
    assert part is not None  # noqa: S101 - an item in RESUMABLE is held by a part
    fresh = replace(
        part,
        running=False,  # of one that cannot be stopped a person says that it came to an end
        overdue=False,
        state=PartState.PENDING,
        item=None,
        attempts=0,
        outage=None,
        overwrite=event.overwrite or part.overwrite,
        error="",
    )
    return put_step(saga, replace(step, parts=with_part(step, fresh), note=event.note))


def _resolve(saga: Saga, step: Step, event: UndoResolved) -> Saga:
    item = step_item(saga, step)
    require(item in RESOLVABLE, "nothing here can be resolved as undone")
    step = replace(step, person=event.by, note=event.note)
    part = step.next_part
    if item is ItemKind.LATE_EFFECT or part is None:
        return put_step(saga, replace(step, state=StepState.COMPENSATED, late=False))
    return put_step(saga, _advance(step, _done(part)))
