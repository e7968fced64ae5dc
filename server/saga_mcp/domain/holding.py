"""What a saga holds to its end, so that no other one works on it meanwhile (SEMANTICS.md S9.2).

Pure, and computed from the saga alone: nothing has to be given back, whoever ends a saga and wherever. A log only keeps
which saga took what last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from saga_mcp.domain.attention import NEEDS_ATTENTION, Item, items, state_with
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
    if resource not in _held(saga, waiting):
        return None
    return Holder(saga.id, waits=state_with(saga, waiting) == NEEDS_ATTENTION)


def held(saga: Saga) -> Mapping[str, int]:
    """Return what a saga holds, each with the first of its steps that works on it, in the order of those."""
    return _held(saga, items(saga))


def _held(saga: Saga, waiting: Collection[Item]) -> dict[str, int]:
    found: dict[str, int] = {}
    if saga.final and not waiting:
        return found
    # A saga that is being undone as a whole holds all of it until that is over.
    gives_back = _NOT_SENT | _UNDONE if saga.phase is Phase.ACTIVE else _NOT_SENT
    for step in saga.steps:
        if step.plan.resource and step.state not in gives_back:
            found.setdefault(step.plan.resource, step.number)
    return found
