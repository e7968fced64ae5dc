"""Whether a call is one that was made before, and what it gets then (SEMANTICS.md S8). Pure.

Clients send a call again when its answer did not reach them, under a new request id. Equal calls are therefore told
apart by what is known of the first one's reply: *acknowledged* (the caller went on after it was sent), *lost*, or
unproved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from saga_mcp.domain.errors import KeyReused, RepeatRefused, StepUnsettled
from saga_mcp.domain.hosts import is_elsewhere
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
class Asked:
    """It is the call that a person has to allow, and has not yet."""

    number: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is the call whose outcome is not known: nothing is sent."""

    number: int


@dataclass(frozen=True, slots=True)
class SendAgain:
    """It is the call whose outcome is not known, and its tool may be sent again with the same key."""

    number: int


Repeat: TypeAlias = NewStep | Join | Replay | Asked | Unknown | SendAgain

_UNKNOWN = frozenset({StepState.INTENDED, StepState.IN_DOUBT})
"""Of a step whose answer is awaited no more."""
_NOT_BORNE = frozenset({StepState.FAILED, StepState.COMPENSATED, StepState.EXEMPT, StepState.CANCELLED})
"""States in which a step no longer bears its step key (S8.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReplies:
    """What is known of the replies to a saga's earlier calls when a call arrives, besides what the log holds (S8.1)."""

    alive: Callable[[str], bool]
    """Whether the process behind an owner id lives."""
    received: Collection[int] = ()
    """Steps whose answer reached the caller, whatever was stored of it before."""
    lost: Collection[int] = ()
    """Steps whose answer is known not to have reached the caller."""
    due: Collection[int] = ()
    """Steps whose callers still waited when the call arrived: for them such a step runs, whatever is stored of it."""
    unproved: Callable[[Step], bool] | None = None
    """Whether it is too soon to take a reply for received that nothing proves to be (S8.3); None: a reply that was
    sent is taken for received, as where one program reads what another one writes."""

    def lost_of(self, saga: Saga, step: Step) -> bool:
        """Whether the answer of `step` is known not to have reached the caller."""
        if step.number in self.received:
            return False
        if step.reply_lost or step.number in self.lost:
            return True
        if is_acknowledged(saga, step):
            return False
        return not self.alive(step.owner) if self.unproved is None else self.unproved(step)


def repeat_of(saga: Saga, plan: StepPlan, on_repeat: OnRepeat, replies: KnownReplies) -> Repeat:
    """What the call is that `plan` describes.

    Args:
        saga: the saga that the call names.
        plan: the call.
        on_repeat: what the tool's config says about calls equal to acknowledged ones.
        replies: what became of the answers of earlier calls.

    Raises:
        KeyReused: its step key names a call with other arguments.
        StepUnsettled: its step key names a call whose outcome is not known and that may not be sent again.
        RepeatRefused: it equals an acknowledged call, and its tool must not run twice.
    """
    if plan.step_key:
        return _by_key(saga, plan)
    if on_repeat is not OnRepeat.RUN:
        return _by_config(saga, plan, on_repeat, replies)
    for step in _equal(unanswered(saga, plan.caller, replies), plan):
        repeat = _by_answer(saga, step, plan, replies)
        if repeat is not None:
            # What the caller has gone on from is no repeat, and neither is anything before it.
            gone_on = any(is_acknowledged(saga, newer) for newer in _equal(saga.steps[step.number :], plan))
            return NewStep() if gone_on else repeat
    return NewStep()


def unanswered(saga: Saga, caller: str, replies: KnownReplies) -> Iterator[Step]:
    """Every step whose answer may not have reached its caller, newest first: few, however long the saga is."""
    numbers = {*saga.loose, *saga.unheard, *replies.lost, *replies.due, *_unacknowledged(saga, caller)}
    return (saga.step(number) for number in sorted(numbers, reverse=True))


def _unacknowledged(saga: Saga, caller: str) -> Iterator[int]:
    """The steps of a caller that stand and whose replies they have not gone on from."""
    seen = dict(saga.acknowledged).get(caller, 0)
    for number in reversed(saga.undo_stack):
        step = saga.step(number)
        if 0 < step.order <= seen:
            return  # so are all below it: they are in the order in which they ended
        if step.plan.caller == caller:
            yield number


def _by_answer(saga: Saga, step: Step, plan: StepPlan, replies: KnownReplies) -> Repeat | None:
    """What a call equal to `step` is, as far as the answer of `step` is still to come, unknown or lost (S8.3)."""
    may_be_same = step.plan.call_id == plan.call_id or not (step.plan.call_id and plan.call_id)
    if is_asked(step):
        return Asked(step.number)  # whoever comes back for it does so by another call
    if is_awaited(step):
        return Join(step.number) if may_be_same or step.approved else None
    if step.state in _UNKNOWN:
        return Unknown(step.number)
    if step.state is not StepState.SUCCEEDED:
        return None
    if replies.lost_of(saga, step):
        return Replay(step.number)
    return Join(step.number) if step.number in replies.due and may_be_same else None


def _by_config(saga: Saga, plan: StepPlan, on_repeat: OnRepeat, replies: KnownReplies) -> Repeat:
    """What an equal call is of a tool that is not to run twice, whether its answer was acknowledged or not."""
    for step in _equal(reversed(saga.steps), plan):
        repeat = _by_answer(saga, step, plan, replies)
        if repeat is not None:
            return repeat
        if step.state is StepState.SUCCEEDED:
            if on_repeat is OnRepeat.REFUSE:
                raise RepeatRefused(plan.tool, step.number)
            return Replay(step.number)
    return NewStep()


def _by_key(saga: Saga, plan: StepPlan) -> Repeat:
    for step in reversed(saga.steps):
        if step.plan.step_key != plan.step_key or step.state in _NOT_BORNE:
            continue
        if not step.plan.same_call(plan):
            raise KeyReused(plan.step_key, step.number)
        if is_asked(step):
            return Asked(step.number)
        if is_awaited(step):
            return Join(step.number)
        if step.state in _UNKNOWN:
            if step.resendable and step.plan.target_id == plan.target_id and not is_elsewhere(step, plan.host):
                return SendAgain(step.number)
            message = (
                f"Step {step.number} {step.tool} bears this step_key and its outcome is unknown. Nothing was sent. "
                "Use saga_status."
            )
            raise StepUnsettled(message, (step.number,))
        return Replay(step.number)
    return NewStep()


def is_awaited(step: Step) -> bool:
    """Whether the step's first answer is still to come, and nobody has to be asked first."""
    if step.state is StepState.INTENDED:
        return not step.exhausted
    return step.state is StepState.AWAITING_APPROVAL and step.approved


def is_asked(step: Step) -> bool:
    """Whether a person has to allow the call."""
    return step.state is StepState.AWAITING_APPROVAL and not step.approved


def is_acknowledged(saga: Saga, step: Step) -> bool:
    """Whether its caller went on after the step's reply was sent to it (S8.1); what others do says nothing of that."""
    return 0 < step.order <= dict(saga.acknowledged).get(step.plan.caller, 0)


def _equal(steps: Iterable[Step], plan: StepPlan) -> Iterable[Step]:
    # What two members of a team ask for is two calls, however alike.
    return (step for step in steps if step.plan.same_call(plan) and step.plan.caller == plan.caller)
