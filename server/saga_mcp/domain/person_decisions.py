"""Decisions on what a person says about an attention item, each with a name and a note. Pure (SEMANTICS.md S14.3)."""

from __future__ import annotations

from saga_mcp.domain.attention import fits
from saga_mcp.domain.draft import Draft, Driving
from saga_mcp.domain.errors import ItemRefused, SagaNotFound
from saga_mcp.domain.events import (
    AlertsResumed,
    Event,
    InvariantExempted,
    StepExempted,
    StepResumed,
    StepSettled,
    UndoResolved,
    UndoResumed,
)
from saga_mcp.domain.rollback import step_item
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_decisions import Landing, judge
from saga_mcp.domain.values import ItemKind, Kind, SettledBy, StepState


def step_waiting(saga: Saga, number: int, verb: str) -> tuple[Step, ItemKind]:
    """The step and the item at it that `verb` fits.

    Raises:
        SagaNotFound: there is no such saga.
        ItemRefused: nothing waits there, or the verb does not fit.
    """
    if not saga.opened:
        raise SagaNotFound(saga.id)
    step = saga.find_step(number)
    kind = step_item(saga, step) if step is not None else None
    if step is None or kind is None:
        message = f"Nothing waits for a person at {saga.id}.{number}. Nothing was changed. See `saga-mcp attention`."
        raise ItemRefused(message)
    if not fits(kind, verb, has_undo=step.kind is Kind.COMPENSABLE):
        name = f"{saga.id}.{number}"
        message = f"{name} is an item of the kind {kind}: `{verb}` does not fit. Nothing was changed. "
        # Which verbs there are, the command knows.
        raise ItemRefused(f"{message}See `saga-mcp show {name}`.")
    return step, kind


def exempt(saga: Saga, number: int, *, by: str, note: str, driving: Driving) -> tuple[Event, ...]:
    """A person decides that what the step did, if anything, stays."""
    draft = Draft(saga)
    if number == 0 and saga.violations:
        for name in saga.violations:
            draft.add(InvariantExempted(name=name, by=by, note=note))
        return draft.close(driving)
    step_waiting(saga, number, "resolve --keep" if _at_guard(saga, number) else "exempt")
    draft.add(StepExempted(step=number, by=by, note=note))
    return draft.close(driving)


def _at_guard(saga: Saga, number: int) -> bool:
    step = saga.find_step(number)
    return step is not None and step_item(saga, step) is ItemKind.GUARD_CONFLICT


def retry(saga: Saga, number: int, *, by: str, note: str, driving: Driving) -> tuple[Event, ...]:
    """A person lets what is stuck try again, with fresh attempts and the same key."""
    draft = Draft(saga)
    if number == 0 and saga.alerts_parked:
        draft.add(AlertsResumed(by=by, note=note))
        return draft.close(driving)
    step, kind = step_waiting(saga, number, "retry")
    if kind is ItemKind.RETRIABLE_EXHAUSTED:
        draft.add(StepResumed(step=number, by=by, note=note))
    else:
        if not step.plan.guarded:  # a guard looks first, and lets nothing through that does not fit
            _require_not_passed(saga, step, driving, "`resolve --undone`, where nothing of it is left, or `exempt`")
        draft.add(UndoResumed(step=number, by=by, note=note))
    return draft.close(driving)


def overwrite(saga: Saga, number: int, *, by: str, note: str, driving: Driving) -> tuple[Event, ...]:
    """A person lets an undo go on although the guard found a conflict."""
    step, _ = step_waiting(saga, number, "resolve --overwrite")
    _require_its_turn(saga, step, driving)
    draft = Draft(saga)
    draft.add(UndoResumed(step=number, by=by, note=note, overwrite=True))
    return draft.close(driving)


def _require_its_turn(saga: Saga, step: Step, driving: Driving) -> None:
    """Refuse what would leave something that stood between two steps, and count as undone (DESIGN.md rules 4 and 10).

    An undo puts back what stood before its step: of several at one place, only newest first leads to the beginning.

    Raises:
        ItemRefused: another step at that place comes first, or came already.
    """
    place = driving.place_of(step)
    if not place:
        return
    name = f"{saga.id}.{step.number}"
    for number in reversed(saga.undo_stack):
        other = saga.step(number)
        it = f"{saga.id}.{number}"
        if other.order > step.order and not other.settled and driving.place_of(other) == place:
            message = f"{it} worked on the same after {name}, and would put back there what {name} had left."
            raise ItemRefused(f"{message} Nothing was changed. Settle {it} first: see `saga-mcp show {it}`.")
    _require_not_passed(saga, step, driving, f"`saga-mcp resolve {name} --keep` leaves what is there")


def _require_not_passed(saga: Saga, step: Step, driving: Driving, instead: str) -> None:
    """Refuse an undo that would put back what an older step had left, after that one was undone past it.

    What is undone and still lies below another step on the undo stack was undone past that one.

    Raises:
        ItemRefused: it would; `instead` says what can be done.
    """
    if step.capture is None or not (place := driving.place_of(step)):
        return
    for number in saga.undo_stack:
        other = saga.step(number)
        if other.order >= step.order or other.state is not StepState.COMPENSATED or driving.place_of(other) != place:
            continue
        if step.plan.guarded and (other.image is None or other.image != step.capture):
            continue
        it, name = f"{saga.id}.{number}", f"{saga.id}.{step.number}"
        message = f"{it} worked on the same before {name} and is undone: this would put back what {it} had left."
        raise ItemRefused(f"{message} Nothing was changed; {instead}.")


def resolve_undone(saga: Saga, number: int, *, by: str, note: str, driving: Driving) -> tuple[Event, ...]:
    """A person undid it by hand; what else the step's undo has goes on."""
    step_waiting(saga, number, "resolve --undone")
    draft = Draft(saga)
    draft.add(UndoResolved(step=number, by=by, note=note))
    return draft.close(driving)


def resolve_landed(
    saga: Saga, number: int, landing: Landing, *, by: str, note: str, driving: Driving
) -> tuple[Event, ...]:
    """A person found that the step took effect, and may know its result, which is judged like the tool's own (S9.3)."""
    step = saga.find_step(number)
    verb = "resolve --landed --result" if step is not None and _cannot_build(saga, step) else "resolve --landed"
    step_waiting(saga, number, verb)
    draft = Draft(saga)
    draft.add(
        StepSettled(
            step=number,
            landed=True,
            by=SettledBy.PERSON,
            person=by,
            result=landing.result,
            parts=landing.undo.parts,
            build_error=landing.undo.build_error,
            note=note,
        )
    )
    judge(draft, number, landing.violated, driving)
    return draft.close(driving)


def _cannot_build(saga: Saga, step: Step) -> bool:
    return step_item(saga, step) is ItemKind.CANNOT_BUILD


def resolve_absent(saga: Saga, number: int, *, by: str, note: str, driving: Driving) -> tuple[Event, ...]:
    """A person found that the step had no effect."""
    step, _ = step_waiting(saga, number, "resolve --absent")
    if step.landed:
        message = (
            f"{saga.id}.{number} is known to have taken effect; only its call has not ended. Nothing was changed. "
            "Say that it landed, or exempt it."
        )
        raise ItemRefused(message)
    draft = Draft(saga)
    draft.add(StepSettled(step=number, landed=False, by=SettledBy.PERSON, person=by, note=note))
    draft.abort_on_error(f"step_failed:{number}", driving)
    return draft.close(driving)
