"""Who may still start something in the world, asked of the state that the intent is appended to. Pure.

A process that stood still, or that others did not see for a while, goes on with what it knew before. So none of this is
asked first and acted on later: it is part of the decision that stores the intent, and the compare-and-set makes the two
one (DESIGN.md rule 7, SEMANTICS.md S3.5, S5.3, S10.5).
"""

from __future__ import annotations

from collections.abc import Iterable

from saga_mcp.domain.events import Event, StepAttempted, StepIntended, UndoIntended
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import StepState


def starts(events: Iterable[Event]) -> bool:
    """Whether something is sent once these are stored."""
    return any(isinstance(event, StepIntended | StepAttempted | UndoIntended) for event in events)


def may_send_again(saga: Saga, step: Step, owner: str) -> bool:
    """Whether a further attempt of a step is for `owner` to make: it is between two of its own, or it drives the saga.

    A step that others found between two attempts has ended for the process that made them.
    """
    return saga.driver == owner or (step.owner == owner and step.state is StepState.INTENDED)


def has_under_way(saga: Saga, owner: str) -> bool:
    """Whether a step of `owner` runs, or is between two attempts, so that it keeps what it has locked."""
    steps = (step for step in saga.loose_steps if step.owner == owner)
    return any(step.running or (step.state is StepState.INTENDED and not step.exhausted) for step in steps)
