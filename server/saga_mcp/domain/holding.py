"""What a saga holds to its end, so that no other one works on it meanwhile (SEMANTICS.md S9.2).

Pure, and computed from the saga alone: nothing has to be given back, whoever ends a saga and wherever. A log only keeps
which saga took what last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from saga_mcp.domain.attention import NEEDS_ATTENTION, items, state_with
from saga_mcp.domain.events import Event, StepAdopted, StepIntended, StepPlan
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase, StepState


@dataclass(frozen=True, slots=True)
class Holder:
    """Which saga holds something."""

    saga_id: str
    waits: bool
    """A person has to settle something of it first."""


_NOT_SENT = frozenset({StepState.AWAITING_APPROVAL, StepState.CANCELLED})
_UNDONE = frozenset({StepState.COMPENSATED, StepState.EXEMPT})


def taken(events: Iterable[Event]) -> Iterable[StepPlan]:
    """Return the plans among `events` that take hold of something."""
    return (event.plan for event in events if isinstance(event, StepIntended | StepAdopted) and event.plan.resource)


def holder(saga: Saga, resource: str) -> Holder | None:
    """Return the saga if it holds it: until it is final without open items, or went back behind its last use of it."""
    waiting = items(saga)
    if saga.final and not waiting:
        return None
    users = [step for step in saga.steps if step.plan.resource == resource and step.state not in _NOT_SENT]
    if not users or (saga.phase is Phase.ACTIVE and all(step.state in _UNDONE for step in users)):
        return None
    return Holder(saga.id, waits=state_with(saga, waiting) == NEEDS_ATTENTION)
