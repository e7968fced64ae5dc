"""Decisions on what became of an undo. Pure (SEMANTICS.md S5, S6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from saga_mcp.domain.draft import Draft, Driving
from saga_mcp.domain.events import (
    Event,
    PartSpec,
    StepSettled,
    UndoFailed,
    UndoFellInDoubt,
    UndoIntended,
    UndoOverdue,
    UndoParked,
    UndoProbesEnded,
    UndoRunEnded,
    UndoSettled,
    UndoSucceeded,
)
from saga_mcp.domain.on_undo import open_to_settling, parkable
from saga_mcp.domain.rollback import next_undo, undo_probe_due
from saga_mcp.domain.state import Part, Saga
from saga_mcp.domain.undo_events import Outage
from saga_mcp.domain.undo_parts import part_of
from saga_mcp.domain.values import Effect, ItemKind, PartAction, PartState, SettledBy, Urgency


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoMiss:
    """An undo attempt that answered, and not with success."""

    effect: Effect
    error: str
    counted: bool = True
    outage: Outage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parking:
    """Why an undo part waits for a person."""

    item: ItemKind
    message: str
    urgency: Urgency = Urgency.NORMAL


Follow: TypeAlias = Callable[[Saga], tuple[Event, ...]]
"""What goes into the same append as an outcome, given the state after it."""


def nothing_follows(_saga: Saga) -> tuple[Event, ...]:
    """The outcome stands alone."""
    return ()


def undo_intended(saga: Saga, number: int, part: str, owner: str) -> tuple[Event, ...]:
    """Record an undo attempt before it is sent; none where it is not, or no longer, its turn, or `owner`'s to drive."""
    ours = saga.driver == owner and _at_turn(saga, number, part)
    return (UndoIntended(step=number, part=part, owner=owner),) if ours else ()


def _at_turn(saga: Saga, number: int, part: str) -> bool:
    turn = next_undo(saga)
    return turn is not None and turn.step.number == number and turn.part.id == part


def undo_done(
    saga: Saga, number: int, part: str, answer: str, driving: Driving, *, follow: Follow = nothing_follows
) -> tuple[Event, ...]:
    """The undo took effect, had taken it before, or had nothing to do; `follow` may add the next one's intent."""
    draft = Draft(saga)
    now = _part(saga, number, part)
    unsent = now.state is PartState.PENDING and now.spec.action in {PartAction.LEAVE, PartAction.NOTHING}
    if now.state is PartState.INTENDED or (unsent and _at_turn(saga, number, part)):
        draft.add(UndoSucceeded(step=number, part=part, answer=answer))
    elif open_to_settling(now, SettledBy.LATE_ANSWER, done=True):
        draft.add(UndoSettled(step=number, part=part, done=True, by=SettledBy.LATE_ANSWER, answer=answer))
    draft.add_all(follow(draft.saga))
    return draft.close(driving)


def undo_unneeded(saga: Saga, number: int, driving: Driving) -> tuple[Event, ...]:
    """The guard found the world as it was before the step: its pair's undo is done without a call (S6.7).

    A step in doubt that was never undone is then known to have had no effect. What its call registered itself is about
    other things, and still runs.
    """
    draft = Draft(saga)
    step = saga.step(number)
    if step.landed is None and _turn_of(saga, number) is not None and not any(part.tries for part in step.parts or ()):
        draft.add(StepSettled(step=number, landed=False, by=SettledBy.PROBE))
        return draft.close(driving)
    while (part := _turn_of(draft.saga, number)) is not None and not part.registered:
        if part.state is PartState.UNDO_IN_DOUBT:
            draft.add(UndoSettled(step=number, part=part.id, done=True, by=SettledBy.PROBE))
        else:
            draft.add(UndoSucceeded(step=number, part=part.id, unneeded=True))
    return draft.close(driving)


def _turn_of(saga: Saga, number: int) -> Part | None:
    turn = next_undo(saga)
    return turn.part if turn is not None and turn.step.number == number else None


def undo_unsent(
    saga: Saga, number: int, part: str, owner: str, miss: UndoMiss, driving: Driving, *, parking: Parking | None = None
) -> tuple[Event, ...]:
    """An attempt came to nothing before anything was sent: another follows, or a person is asked."""
    draft = Draft(saga)
    draft.add_all(undo_intended(saga, number, part, owner))
    if draft.events:
        draft.add_all(undo_missed(draft.saga, number, part, miss, driving, parking=parking))
    return draft.close(driving)


def undo_missed(
    saga: Saga, number: int, part: str, miss: UndoMiss, driving: Driving, *, parking: Parking | None = None
) -> tuple[Event, ...]:
    """The undo answered with an error; `parking` hands it to a person, otherwise it is tried again."""
    draft = Draft(saga)
    now = _part(saga, number, part)
    if now.state is PartState.INTENDED:
        draft.add(
            UndoFailed(
                step=number,
                part=part,
                effect=miss.effect,
                counted=miss.counted,
                outage=miss.outage,
                error=miss.error,
            )
        )
    elif now.state is PartState.UNDO_IN_DOUBT and now.running:
        draft.add(UndoRunEnded(step=number, part=part, error=miss.error))
    after = _part(draft.saga, number, part)
    if parking is not None and parkable(draft.saga, draft.step(number), after):
        draft.add(_parked(number, part, parking))
    return draft.close(driving)


def undo_parked(saga: Saga, number: int, part: str, parking: Parking, driving: Driving) -> tuple[Event, ...]:
    """Without anything sent, an undo part is handed to a person; none where it is not its turn."""
    draft = Draft(saga)
    if parkable(saga, saga.step(number), _part(saga, number, part)):
        draft.add(_parked(number, part, parking))
    return draft.close(driving)


def _parked(number: int, part: str, parking: Parking) -> UndoParked:
    return UndoParked(step=number, part=part, item=parking.item, message=parking.message, urgency=parking.urgency)


def undo_goes_on(saga: Saga, number: int, part: str, reason: str) -> tuple[Event, ...]:
    """The wait for an undo ended, the call did not."""
    if _part(saga, number, part).state is not PartState.INTENDED:
        return ()
    return (UndoFellInDoubt(step=number, part=part, reason=reason, running=True),)


def undo_overdue(saga: Saga, number: int, part: str) -> tuple[Event, ...]:
    """An undo that cannot be stopped passed its hard deadline."""
    now = _part(saga, number, part)
    if now.state is not PartState.UNDO_IN_DOUBT or not now.running or now.overdue:
        return ()
    return (UndoOverdue(step=number, part=part),)


def undo_lost(saga: Saga, number: int, part: str, reason: str, driving: Driving) -> tuple[Event, ...]:
    """An undo will bring no answer any more."""
    draft = Draft(saga)
    now = _part(saga, number, part)
    if now.state is PartState.INTENDED:
        draft.add(UndoFellInDoubt(step=number, part=part, reason=reason))
    elif now.running:
        draft.add(UndoRunEnded(step=number, part=part, error=reason))
    return draft.close(driving)


def undo_probed(saga: Saga, number: int, part: str, *, done: bool | None, driving: Driving) -> tuple[Event, ...]:
    """A probe said whether an in-doubt undo took effect; None: it gave no verdict in its time."""
    draft = Draft(saga)
    now = _part(saga, number, part)
    if done is None:
        if undo_probe_due(now) and not now.running:
            draft.add(UndoProbesEnded(step=number, part=part))
    elif open_to_settling(now, SettledBy.PROBE, done=done):
        draft.add(UndoSettled(step=number, part=part, done=done, by=SettledBy.PROBE))
    return draft.close(driving)


def _part(saga: Saga, number: int, part_id: str) -> Part:
    part = part_of(saga.step(number), part_id)
    # A late result may have bound the undo anew while an answer for the old one was on its way: nothing is left to say.
    return part or Part(id=part_id, spec=PartSpec(action=PartAction.NOTHING), state=PartState.DONE)
