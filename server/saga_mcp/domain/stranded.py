"""Attempts of a living process that nothing in it has in hand any more. Pure.

The task that should have sent one, or told what came of it, ended for a reason that no rule foresees: a bug, or a log
that stored what it said it had not. Nobody but the process itself can find that out, for its owner is alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from saga_mcp.domain.draft import Draft, Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.step_decisions import Miss, missed, run_lost
from saga_mcp.domain.undo_decisions import UndoMiss, undo_lost, undo_missed
from saga_mcp.domain.values import Effect, Kind

_NOT_SENT = "not sent: this server lost track of it before"
_UNTOLD = "internal error: what came of it was not recorded"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a forward action, or of an undo part, as its intent numbered it."""

    step: int
    number: int
    part: str = ""
    """Empty: the forward action."""
    generation: int = 0


def attempt_of(step: Step, part: Part | None = None) -> Attempt:
    """The latest attempt of a step, or of a part of its undo."""
    if part is None:
        return Attempt(step.number, step.attempts)
    return Attempt(step.number, part.tries, part.id, part.generation)


def attempts_of(saga: Saga, owner: str) -> tuple[Attempt, ...]:
    """The attempts that `owner` has not ended."""
    forward = [attempt_of(step) for step in saga.loose_steps if step.running and step.owner == owner]
    undone = saga.find_step(saga.undoing)
    parts = () if undone is None else undone.parts or ()
    undos = [attempt_of(saga.step(saga.undoing), part) for part in parts if part.running and part.owner == owner]
    return (*forward, *undos)


def outlives_us(saga: Saga, attempt: Attempt) -> bool:
    """Whether an attempt that has not ended may go on where its owner has."""
    step = saga.step(attempt.step)
    if not attempt.part:
        return step.plan.outlives_us
    return any(part.id == attempt.part and part.spec.outlives_us for part in step.parts or ())


def end_stranded(
    saga: Saga, stranded: frozenset[Attempt], sent: frozenset[Attempt], owner: str, driving: Driving
) -> tuple[Event, ...]:
    """Record what is known of stranded attempts: nothing of one that was sent, no effect of one that was not.

    Args:
        saga: the state now; attempts that went on or ended meanwhile are left alone.
        stranded: attempts of `owner` that no task has in hand.
        sent: which of them were sent.
        owner: whose attempts they are.
        driving: who decides.
    """
    draft = Draft(saga)
    for attempt in attempts_of(saga, owner):
        if attempt in stranded:
            end = _end_undo if attempt.part else _end_step
            draft.add_all(end(draft.saga, attempt, attempt in sent, driving))
    return draft.drafted()


def _end_step(saga: Saga, attempt: Attempt, sent: bool, driving: Driving) -> tuple[Event, ...]:  # noqa: FBT001 - one of two alike
    if sent:
        return run_lost(saga, attempt.step, reason=_UNTOLD, end_known=False, driving=driving)
    # Only a retriable step is sent again by whoever drives the saga (S7.2).
    again = saga.step(attempt.step).kind is Kind.RETRIABLE
    return missed(saga, attempt.step, Miss(effect=Effect.NONE, error=_NOT_SENT, more=again), driving)


def _end_undo(saga: Saga, attempt: Attempt, sent: bool, driving: Driving) -> tuple[Event, ...]:  # noqa: FBT001 - see above
    if sent:
        return undo_lost(saga, attempt.step, attempt.part, _UNTOLD, driving)
    miss = UndoMiss(effect=Effect.NONE, error=_NOT_SENT, counted=False)
    return undo_missed(saga, attempt.step, attempt.part, miss, driving)
