"""Repeats are found without looking at every earlier step, and are the ones that a look at every step finds (S8.3)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.domain.stories import UNDO, saga_of

from saga_mcp.domain import events as e
from saga_mcp.domain import repeats
from saga_mcp.domain.errors import IllegalTransition, RepeatRefused
from saga_mcp.domain.machine import apply
from saga_mcp.domain.repeats import (
    Join,
    KnownReplies,
    NewStep,
    OnRepeat,
    Repeat,
    Replay,
    Unknown,
    is_acknowledged,
    is_awaited,
    repeat_of,
)
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import Effect, Kind, SettledBy, StepState

PLANS = [
    e.StepPlan(
        tool="crm.create", kind=Kind.COMPENSABLE, idempotent=True, args={"name": name}, call_id=call_id, caller=caller
    )
    for name, call_id, caller in (
        ("ada", "", ""),
        ("ada", "call-1", ""),
        ("ada", "call-2", ""),
        ("bob", "", ""),
        ("ada", "", "another"),
    )
]


def naive(saga: Saga, plan: e.StepPlan, on_repeat: OnRepeat, lost: Callable[[Step], bool]) -> Repeat:
    """The rules said plainly: the newest equal steps first, up to one that the caller has gone on from."""
    for step in reversed(saga.steps):
        if not step.plan.same_call(plan) or step.plan.caller != plan.caller:
            continue
        if is_awaited(step):
            if step.plan.call_id == plan.call_id or not (step.plan.call_id and plan.call_id):
                return Join(step.number)
        elif step.state is StepState.IN_DOUBT:
            return Unknown(step.number)
        elif step.state is StepState.SUCCEEDED:
            if lost(step) or on_repeat is OnRepeat.REPLAY:
                return Replay(step.number)
            if on_repeat is OnRepeat.REFUSE:
                raise RepeatRefused(plan.tool, step.number)
        if on_repeat is OnRepeat.RUN and is_acknowledged(saga, step):
            break
    return NewStep()


def outcomes(number: int) -> list[e.Event]:
    """What may become of a step; what usually does more than once."""
    return [
        *[e.StepSucceeded(step=number, parts=UNDO)] * 4,
        *[e.ReplyLost(step=number)] * 2,
        e.StepFailed(step=number),
        e.StepFellInDoubt(step=number, reason="timeout", running=True, parts=UNDO),
        e.StepFellInDoubt(step=number, reason="error", end_known=True, parts=UNDO),
        e.StepSettled(step=number, landed=True, by=SettledBy.LATE_ANSWER, parts=UNDO),
        e.StepSettled(step=number, landed=False, by=SettledBy.LATE_ANSWER),
        e.StepAttemptEnded(step=number, effect=Effect.UNKNOWN),
        e.StepAttempted(step=number, owner="dead"),
        e.StepExempted(step=number, by="ada"),
    ]


@st.composite
def sagas(draw: st.DrawFn) -> Saga:
    """Active sagas of some steps, equal and unequal ones, each at its own point of its life."""
    saga = saga_of()
    for _ in range(draw(st.integers(1, 12))):
        steps = len(saga.steps)
        if not steps or draw(st.integers(0, 2)) == 0:
            lost = st.sampled_from([(), *((number,) for number in saga.unheard)])
            happened: e.Event = e.StepIntended(
                step=steps + 1,
                plan=draw(st.sampled_from(PLANS)),
                owner=draw(st.sampled_from(["alive", "dead"])),
                seen=draw(st.sampled_from([0, saga.seq // 2, saga.seq])),
                received=draw(lost),
            )
        else:
            happened = draw(st.sampled_from(outcomes(draw(st.integers(1, steps)))))
        with suppress(IllegalTransition):
            saga = apply(saga, happened)
    return saga


def answer(find: Callable[[], Repeat]) -> Repeat | None:
    """What was found; None: refused."""
    try:
        return find()
    except RepeatRefused:
        return None


@settings(max_examples=500)
@given(sagas())
def test_a_call_is_the_repeat_that_a_look_at_every_step_finds(saga: Saga) -> None:
    numbers = [(), *((step.number,) for step in saga.steps)]
    known = [(lost, received) for lost in numbers for received in ((), lost)]
    for plan, on_repeat, (lost, received) in product(PLANS, OnRepeat, known):
        replies = KnownReplies(alive=lambda owner: owner == "alive", received=received, lost=lost)
        assert answer(partial(repeat_of, saga, plan, on_repeat, replies)) == answer(
            partial(naive, saga, plan, on_repeat, partial(replies.lost_of, saga))
        ), (plan, on_repeat, replies)


def test_what_another_caller_goes_on_from_says_nothing_of_ones_own_replies() -> None:
    mine, another = PLANS[0], PLANS[-1]
    saga = apply(saga_of(), e.StepIntended(step=1, plan=mine, owner="dead"))
    saga = apply(saga, e.StepSucceeded(step=1, parts=UNDO))
    saga = apply(saga, e.StepIntended(step=2, plan=another, owner="alive", seen=saga.seq))
    saga = apply(saga, e.StepSucceeded(step=2, parts=UNDO))
    replies = KnownReplies(alive=lambda owner: owner == "alive")
    assert repeat_of(saga, mine, OnRepeat.RUN, replies) == Replay(1)
    assert repeat_of(saga, another, OnRepeat.RUN, replies) == NewStep()


def test_the_calls_that_the_caller_has_gone_on_from_are_not_looked_at() -> None:
    saga = saga_of()
    for number in range(1, 301):
        plan = replace(PLANS[0], args={"n": number}, args_digest="")
        saga = apply(saga, e.StepIntended(step=number, plan=plan, owner="alive", seen=saga.seq))
        saga = apply(saga, e.StepSucceeded(step=number, parts=UNDO))
    replies = KnownReplies(alive=lambda _: True)
    assert len(list(repeats.unanswered(saga, "", replies))) == 1
