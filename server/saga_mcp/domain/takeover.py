"""What became of the work of a process that is proved dead (SEMANTICS.md S3.5). Pure.

Only actions whose own owner is gone fall in doubt; the same rules as for a live observation say what follows (S4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from saga_mcp.domain.draft import Bind, Draft, Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_decisions import goes_on, run_lost
from saga_mcp.domain.stranded import Attempt, attempt_of
from saga_mcp.domain.undo_decisions import undo_goes_on, undo_lost
from saga_mcp.domain.values import StepState

_REASON = "owner_lost"


def lost(
    saga: Saga,
    dead: Callable[[str], bool],
    bind: Bind,
    lasting: Collection[Attempt] = (),
    unproved: Collection[str] = (),
) -> tuple[Event, ...]:
    """What became of actions whose owner is dead.

    A tool that runs inside the process that calls it, or in a child of it, has ended with it. One that runs elsewhere
    counts as running up to its hard deadline (S3.3).

    Args:
        saga: the current state.
        dead: whether an owner id counts as dead.
        bind: builds the undo of a step that falls in doubt, without a result (S6.1).
        lasting: attempts that may go on, and whose hard deadline has not passed.
        unproved: owners whose death is only assumed: nothing of theirs is known to have ended.
    """
    draft = Draft(saga)
    driving = Driving(driver=saga.driver, bind=bind)
    for step in saga.loose_steps:
        if (step.running or step.state is StepState.INTENDED) and not step.exhausted and dead(step.owner):
            now = draft.step(step.number)
            lasts = now.running and attempt_of(now) in lasting
            draft.add_all(
                goes_on(draft.saga, now.number, reason=_REASON, driving=driving)
                if lasts
                else _lost_step(draft.saga, now, driving, proved=now.owner not in unproved)
            )
    if saga.undoing:
        number = saga.undoing
        for part in saga.step(number).parts or ():
            if part.running and dead(part.owner):
                lasts = attempt_of(saga.step(number), part) in lasting
                draft.add_all(
                    undo_goes_on(draft.saga, number, part.id, _REASON)
                    if lasts
                    else undo_lost(draft.saga, number, part.id, _REASON, driving)
                )
    return draft.drafted()


def _lost_step(saga: Saga, step: Step, driving: Driving, *, proved: bool) -> tuple[Event, ...]:
    if step.running:
        ended = proved and not step.plan.outlives_us
        return run_lost(saga, step.number, reason=_REASON, end_known=ended, driving=driving)
    return _ended_between_attempts(saga, step, driving)


def _ended_between_attempts(saga: Saga, step: Step, driving: Driving) -> tuple[Event, ...]:
    """Nobody will send the next attempt of a step that is not retriable."""
    draft = Draft(saga)
    draft.end_between_attempts(step, driving.bind)
    if draft.events:
        draft.abort_on_error(f"step_failed:{step.number}", driving)
    return draft.close(driving)
