"""What became of the work of a process that is proved dead (SEMANTICS.md S3.5). Pure.

Only actions whose own owner is gone fall in doubt; the same rules as for a live observation say what follows (S4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from saga_mcp.domain.draft import Bind, Draft, Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_decisions import run_lost, timed_out
from saga_mcp.domain.undo_decisions import undo_lost, undo_timed_out
from saga_mcp.domain.values import StepState

_REASON = "owner_lost"


def _ends_with_owner(_tool: str) -> bool:
    return False


def lost(
    saga: Saga, dead: Callable[[str], bool], bind: Bind, *, outlives: Callable[[str], bool] = _ends_with_owner
) -> tuple[Event, ...]:
    """What became of actions whose owner is proved dead.

    A tool that ran inside the dead process has ended with it, so its end is known (S3.3). A call of a tool that
    outlives its caller still counts as running, until its hard deadline.

    Args:
        saga: the current state.
        dead: whether an owner id is proved dead.
        bind: builds the undo of a step that falls in doubt, without a result (S6.1).
        outlives: whether a call of this tool may go on after its caller's death (a remote upstream).
    """
    draft = Draft(saga)
    driving = Driving(driver=saga.driver, bind=bind)
    for step in saga.loose_steps:
        if (step.running or step.state is StepState.INTENDED) and not step.exhausted and dead(step.owner):
            for event in _lost_step(draft, step.number, driving, outlives):
                draft.add(event)
    if saga.undoing:
        number = saga.undoing
        for part in saga.step(number).parts or ():
            if part.running and dead(part.owner):
                going_on = outlives(part.spec.tool)
                for event in (
                    undo_timed_out(draft.saga, number, part.id)
                    if going_on
                    else undo_lost(draft.saga, number, part.id, _REASON, driving)
                ):
                    draft.add(event)
    return tuple(draft.events)


def _lost_step(draft: Draft, number: int, driving: Driving, outlives: Callable[[str], bool]) -> Iterator[Event]:
    step = draft.step(number)
    if not step.running:
        yield from _ended_between_attempts(draft.saga, step, driving)
    elif outlives(step.tool):
        yield from timed_out(draft.saga, number, driving)
    else:
        yield from run_lost(draft.saga, number, reason=_REASON, end_known=True, driving=driving)


def _ended_between_attempts(saga: Saga, step: Step, driving: Driving) -> tuple[Event, ...]:
    """Nobody will send the next attempt of a step that is not retriable."""
    draft = Draft(saga)
    draft.end_between_attempts(step, driving.bind)
    if draft.events:
        draft.abort_on_error(f"step_failed:{step.number}", driving)
    return draft.close(driving)
