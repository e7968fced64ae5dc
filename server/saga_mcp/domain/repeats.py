"""Whether a call is one that was made before, and what it gets then (SEMANTICS.md S8). Pure.

Clients send a call again when its answer did not reach them, under a new request id. Equal calls are therefore told
apart by what is known of the first one's reply: *acknowledged* (the caller went on after it was sent), *lost*, or
unproved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from saga_mcp.domain.errors import KeyReused, RepeatRefused, StepUnsettled
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_events import StepPlan
from saga_mcp.domain.values import StepState


class OnRepeat(StrEnum):
    """What a call equal to an acknowledged one gets."""

    RUN = "run"
    REPLAY = "replay"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class NewStep:
    """It is a call of its own."""


@dataclass(frozen=True, slots=True)
class Join:
    """It is the call that still runs as this step: wait for that one's answer."""

    number: int


@dataclass(frozen=True, slots=True)
class Replay:
    """It is the call whose answer is stored with this step."""

    number: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is the call whose outcome is not known: nothing is sent."""

    number: int


@dataclass(frozen=True, slots=True)
class SendAgain:
    """It is the call whose outcome is not known, and its tool may be sent again with the same key."""

    number: int


Repeat: TypeAlias = NewStep | Join | Replay | Unknown | SendAgain

_NOT_BORNE = frozenset({StepState.FAILED, StepState.COMPENSATED, StepState.EXEMPT, StepState.CANCELLED})
"""States in which a step no longer bears its step key (S8.2)."""


def repeat_of(saga: Saga, plan: StepPlan, on_repeat: OnRepeat, lost: Callable[[Step], bool]) -> Repeat:
    """What the call is that `plan` describes.

    Args:
        saga: the saga that the call names.
        plan: the call.
        on_repeat: what the tool's config says about calls equal to acknowledged ones.
        lost: whether the answer of a step is known not to have reached the caller (S8.1).

    Raises:
        KeyReused: its step key names a call with other arguments.
        StepUnsettled: its step key names a call whose outcome is not known and that may not be sent again.
        RepeatRefused: it equals an acknowledged call, and its tool must not run twice.
    """
    if plan.step_key:
        return _by_key(saga, plan)
    for step in _equal(reversed(saga.steps), plan):
        if is_awaited(step):
            if step.plan.call_id == plan.call_id or not (step.plan.call_id and plan.call_id):
                return Join(step.number)
        elif step.state is StepState.IN_DOUBT:
            return Unknown(step.number)
        elif step.state is StepState.SUCCEEDED:
            if lost(step):
                return Replay(step.number)
            if on_repeat is OnRepeat.REPLAY:
                return Replay(step.number)
            if on_repeat is OnRepeat.REFUSE:
                raise RepeatRefused(plan.tool, step.number)
        if on_repeat is OnRepeat.RUN and is_acknowledged(saga, step):
            break  # what the caller has gone on from is no repeat, and neither is anything before it
    return NewStep()


def _by_key(saga: Saga, plan: StepPlan) -> Repeat:
    for step in reversed(saga.steps):
        if step.plan.step_key != plan.step_key or step.state in _NOT_BORNE:
            continue
        if not step.plan.same_call(plan):
            raise KeyReused(plan.step_key, step.number)
        if is_awaited(step):
            return Join(step.number)
        if step.state is StepState.IN_DOUBT:
            if step.plan.idempotent and not step.running:
                return SendAgain(step.number)
            message = (
                f"Step {step.number} {step.tool} bears this step_key and its outcome is unknown. Nothing was sent. "
                "Use saga_status."
            )
            raise StepUnsettled(message, (step.number,))
        return Replay(step.number)
    return NewStep()


def is_awaited(step: Step) -> bool:
    """Whether the step's first answer is still to come."""
    return step.state is StepState.INTENDED


def is_acknowledged(saga: Saga, step: Step) -> bool:
    """Whether the caller went on after the step's reply was sent to it (S8.1)."""
    return 0 < step.order <= saga.acknowledged


def _equal(steps: Iterable[Step], plan: StepPlan) -> Iterable[Step]:
    return (step for step in steps if step.plan.same_call(plan))
