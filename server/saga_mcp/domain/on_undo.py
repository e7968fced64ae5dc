"""Transitions of a step's undo: attempts, doubt, dead letters, and a person's hand (SEMANTICS.md S5, S6)."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from saga_mcp.domain.events import (
    UndoEvent,
    UndoFailed,
    UndoFellInDoubt,
    UndoIntended,
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
    Effect,
    ItemKind,
    PartAction,
    PartState,
    Phase,
    StepState,
)

RESUMABLE = frozenset({ItemKind.DEAD_LETTER, ItemKind.TARGET_CHANGED, ItemKind.UNDO_IN_DOUBT, ItemKind.GUARD_CONFLICT})
"""Items that `retry` (or `resolve --overwrite`) settles (S14.3)."""
RESOLVABLE = frozenset(
    {
        ItemKind.DEAD_LETTER,
        ItemKind.TARGET_CHANGED,
        ItemKind.UNDO_IN_DOUBT,
        ItemKind.MANUAL_UNDO,
        ItemKind.CANNOT_BUILD,
        ItemKind.LATE_EFFECT,
    }
)
"""Items that `resolve --undone` settles (S14.3)."""


def apply_undo_event(saga: Saga, event: UndoEvent) -> Saga:  # noqa: C901 - one flat case per event reads best
    """Return the saga after an event of a step's undo. `saga.seq` already counts the event.

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
                # Left as configured, or the guard found the world as it was before the step: nothing is sent.
                _require_turn(saga, step, part)
                require(part.spec.action is not PartAction.MANUAL, "only a person can undo this")
            else:
                require(part.state is PartState.INTENDED, f"the part is {part.state}")
            moved = _done(part)
        case UndoFailed():
            require(part.state is PartState.INTENDED, f"the part is {part.state}")
            state = PartState.PENDING if event.effect is Effect.NONE else PartState.UNDO_IN_DOUBT
            attempts = part.attempts if event.counted else part.attempts - 1
            moved = replace(part, state=state, running=False, attempts=attempts, error=event.error)
        case UndoFellInDoubt():
            require(part.state is PartState.INTENDED, f"the part is {part.state}")
            error = event.error or event.reason
            moved = replace(part, state=PartState.UNDO_IN_DOUBT, running=event.running, error=error)
        case UndoRunEnded():
            require(part.state is PartState.UNDO_IN_DOUBT and part.running, "the undo is not running")
            moved = replace(part, running=False, error=event.error or part.error)
        case UndoProbesEnded():
            require(undo_probe_due(part), "no probe is due")
            moved = replace(part, probes_ended=True)
        case UndoSettled():
            require(_open_to_settling(part, done=event.done), f"the part is {part.state}")
            moved = _done(part) if event.done else replace(part, state=PartState.PENDING, running=False, item=None)
        case UndoParked():
            require(part.state in {PartState.PENDING, PartState.UNDO_IN_DOUBT} and not part.running, "it is under way")
            require(saga.phase is Phase.COMPENSATING, "the saga is not compensating")
            moved = replace(part, state=PartState.WAITING, item=event.item, urgency=event.urgency, error=event.message)
        case _:  # pragma: no cover
            assert_never(event)
    return put_step(saga, _advance(step, moved))


def _require_turn(saga: Saga, step: Step, part: Part) -> None:
    turn = next_undo(saga)
    require(turn is not None and turn.step.number == step.number, f"it is not the turn of step {step.number}")
    require(turn is not None and turn.part.id == part.id, f"it is not the turn of part {part.id}")


def _open_to_settling(part: Part, *, done: bool) -> bool:
    if part.state is PartState.UNDO_IN_DOUBT:
        return True
    # A late answer of an attempt whose part was already given up.
    return done and part.state is PartState.WAITING and part.item in {ItemKind.UNDO_IN_DOUBT, ItemKind.DEAD_LETTER}


def _done(part: Part) -> Part:
    return replace(part, state=PartState.DONE, running=False, item=None)


def _advance(step: Step, moved: Part) -> Step:
    """Put the part back; with the last part done the step is undone, or begins again where its effect came late."""
    step = replace(with_part(step, moved), state=StepState.COMPENSATING)
    if step.next_part is not None:
        return step
    if step.redo:
        return replace(step, redo=False, parts=next_generation(step))
    return replace(step, state=StepState.COMPENSATED)


def _resume(saga: Saga, step: Step, event: UndoResumed) -> Saga:
    item = step_item(saga, step)
    require(item in RESUMABLE and saga.phase is Phase.COMPENSATING, "nothing here can be tried again")
    part = step.next_part
    assert part is not None  # noqa: S101 - an item in RESUMABLE is held by a part
    fresh = replace(
        part, state=PartState.PENDING, item=None, attempts=0, overwrite=event.overwrite or part.overwrite, error=""
    )
    return put_step(saga, replace(with_part(step, fresh), note=event.note))


def _resolve(saga: Saga, step: Step, event: UndoResolved) -> Saga:
    item = step_item(saga, step)
    require(item in RESOLVABLE, "nothing here can be resolved as undone")
    step = replace(step, person=event.by, note=event.note)
    part = step.next_part
    if item in {ItemKind.CANNOT_BUILD, ItemKind.LATE_EFFECT} or part is None:
        return put_step(saga, replace(step, state=StepState.COMPENSATED, late=False))
    return put_step(saga, _advance(step, _done(part)))
