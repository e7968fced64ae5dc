"""A decision under construction: events are added one by one, each checked by the machine as it is added."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self, TypeAlias

from saga_mcp.domain.events import (
    AbortDeferred,
    AbortRequested,
    Event,
    RollbackFinished,
    RollbackReopened,
    StepCancelled,
    StepFailed,
    StepFellInDoubt,
)
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import apply, fold
from saga_mcp.domain.on_saga import reopens
from saga_mcp.domain.rollback import in_scope, rollback_done
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import WHOLE_SAGA, Cancelled, Kind, OnError, Phase, StepState

Bind: TypeAlias = Callable[[Step], BoundUndo]
"""Builds the undo of a step without a result (S6.1)."""

PlaceOf: TypeAlias = Callable[[Step], str]
"""What stands for the thing that a step worked on, as its lock has it (S5.3); empty: none, or it cannot be told."""


@dataclass(frozen=True, slots=True)
class Driving:
    """Who decides, how it builds the undo of a step whose result is not known, and where a step worked."""

    driver: str
    bind: Bind
    place_of: PlaceOf = lambda _: ""


class Drafted(tuple[Event, ...]):  # noqa: SLOT001 - a tuple with slots of its own does not exist
    """The events of a decision, with the state they were made for and the one they lead to."""

    before: Saga
    after: Saga

    def __new__(cls, events: Iterable[Event], before: Saga, after: Saga) -> Self:
        """Only for a `Draft`, which has applied the events."""
        drafted = super().__new__(cls, events)
        drafted.before = before
        drafted.after = after
        return drafted


def after(saga: Saga, events: tuple[Event, ...]) -> Saga:
    """The state after a decision's events. What a draft applied to this very state is not applied again.

    Raises:
        IllegalTransition: an event is not allowed.
    """
    if isinstance(events, Drafted) and events.before is saga:
        return events.after
    return fold(saga, events)


class Draft:
    """Events to append, and the state they lead to."""

    def __init__(self, saga: Saga) -> None:
        self._before = saga
        self.saga = saga
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        """Append `event`; the machine checks it at once."""
        self.saga = apply(self.saga, event)
        self.events.append(event)

    def add_all(self, events: tuple[Event, ...]) -> None:
        """Append what another decision made of the state so far."""
        self.saga = after(self.saga, events)
        self.events += events

    def step(self, number: int) -> Step:
        """The step as it stands after the events so far."""
        return self.saga.step(number)

    def abort_on_error(self, cause: str, driving: Driving) -> None:
        """Abort as the saga's policy says after a step went wrong; a pivot in the way defers it (S4.2, S7.1)."""
        if self.saga.phase is Phase.ACTIVE and self.saga.on_error is OnError.ABORT:
            self.abort(AbortRequested(cause=cause, by="policy", driver=driving.driver), driving.bind)

    def abort(self, request: AbortRequested, bind: Bind) -> None:
        """Close the saga to new work, or note the wish where a pivot is unsettled; nothing past the pivot."""
        if self.saga.pivot_passed:
            return
        if self.saga.pivot and not self.saga.step(self.saga.pivot).running:
            self.end_between_attempts(self.saga.step(self.saga.pivot), bind)
        if self.saga.pivot:
            if self.saga.abort_wanted is None or request.target < self.saga.abort_wanted.target:
                self.add(
                    AbortDeferred(cause=request.cause, target=request.target, by=request.by, reason=request.reason)
                )
            return
        self.add(request)
        for step in self.saga.steps:
            if step.state is StepState.AWAITING_APPROVAL and in_scope(self.saga, step):
                self.add(StepCancelled(step=step.number, why=Cancelled.ABORTED, by=request.by))
            elif reopens(self.saga, step):
                self.add(RollbackReopened(step=step.number))
            else:
                self.end_between_attempts(step, bind)

    def end_between_attempts(self, step: Step, bind: Bind) -> None:
        """A step between two attempts is not sent again (S4.3); a retriable one is, whatever happens."""
        if step.state is not StepState.INTENDED or step.running:
            return
        if step.unknown_attempts:
            undo = bind(step)
            self.add(
                StepFellInDoubt(
                    step=step.number,
                    reason="error",
                    end_known=True,
                    parts=undo.parts,
                    build_error=undo.build_error,
                    error=step.error,
                )
            )
        elif step.kind is not Kind.RETRIABLE:
            self.add(StepFailed(step=step.number, error=step.error))

    def close(self, driving: Driving) -> tuple[Event, ...]:
        """Add what follows by itself, and return all events.

        That is: a deferred abort whose pivot failed, and the end of a rollback.
        """
        wanted = self.saga.abort_wanted
        if wanted is not None and not self.saga.pivot and self.saga.phase is Phase.ACTIVE:
            request = AbortRequested(
                cause=wanted.cause, target=wanted.target, by=wanted.by, reason=wanted.reason, driver=driving.driver
            )
            self.abort(request, driving.bind)
        if rollback_done(self.saga):
            self.add(RollbackFinished())
        return self.drafted()

    def drafted(self) -> Drafted:
        """The events so far."""
        return Drafted(self.events, self._before, self.saga)


def whole(cause: str, driver: str, by: str = "", reason: str = "") -> AbortRequested:
    """An abort of the whole saga."""
    return AbortRequested(cause=cause, target=WHOLE_SAGA, by=by, reason=reason, driver=driver)
