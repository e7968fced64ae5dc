"""The saga state machine: `apply(saga, event) -> Saga`.

Total and immutable: every (saga, event) pair yields the next `Saga` or raises `IllegalTransition`. The saga log
stores the events; folding them through `apply` rebuilds the state. No I/O, no clock, no randomness. The table of
states and events is generated from this code into docs/states.md and walked exhaustively by the tests.
"""

from __future__ import annotations

from collections.abc import Iterable

from saga_mcp.domain.copying import replace
from saga_mcp.domain.events import Event, StepEvent, StepHostAwaited, UndoEvent
from saga_mcp.domain.hosts import apply_host_awaited
from saga_mcp.domain.on_saga import apply_saga_event
from saga_mcp.domain.on_step import apply_step_event
from saga_mcp.domain.on_undo import apply_undo_event
from saga_mcp.domain.state import Saga
from saga_mcp.domain.transition import step_of


def apply(saga: Saga, event: Event) -> Saga:
    """Return the saga after `event`.

    Raises:
        IllegalTransition: `event` is not allowed in this state; the message says why.
    """
    if isinstance(event, StepEvent):
        return apply_step_event(saga, event)
    if isinstance(event, UndoEvent):
        return apply_undo_event(saga, event)
    if isinstance(event, StepHostAwaited):
        return apply_host_awaited(saga, step_of(saga, event.step))
    return replace(apply_saga_event(saga, event), seq=saga.next_seq)


def fold(saga: Saga, events: Iterable[Event]) -> Saga:
    """Return the saga after all of `events`, in order."""
    for event in events:
        saga = apply(saga, event)
    return saga
