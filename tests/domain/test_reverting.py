"""What a revert takes over, what it refuses, and to whom (SEMANTICS.md S13)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.domain import alphabet as a

from saga_mcp.domain import events as e
from saga_mcp.domain.attention import reverted_words, summary
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.duties import RunUndo, duties
from saga_mcp.domain.errors import RevertRefused, SagaNotFound
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import fold
from saga_mcp.domain.reverting import RevertOrder, Work, plan_revert, revert
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import OnError, OnUndoFailure, PartAction, SettledBy

PERSON = RevertOrder(by="ada", window_s=10.0, revert="sg-new")
AGENT = replace(PERSON, by="agent", agent=True)
DRIVING = Driving(driver="me", bind=lambda _: BoundUndo())
LEFT = e.PartSpec(action=PartAction.LEAVE, message="the branch")
GUARDED = replace(a.GUARDED, looks_after=False)


def kept(*steps: tuple[e.StepPlan, a.Binding], registered: tuple[int, ...] = ()) -> Saga:
    """A committed saga of these steps, one after the other."""
    events: list[e.Event] = [e.SagaOpened(realm="r", driver="me", on_error=OnError.HOLD, purpose="a trip")]
    for number, (plan, parts) in enumerate(steps, 1):
        events.append(e.StepIntended(step=number, plan=plan, owner="me"))
        if number in registered:
            events.append(e.UndoRegistered(step=number, part=a.CALL))
        events.append(e.StepSucceeded(step=number, parts=parts))
    return fold(Saga(id="sg-old"), [*events, e.SagaCommitted(by="agent")])


def test_each_step_is_planned_newest_first_by_what_its_undo_can_do() -> None:
    saga = kept(
        (GUARDED, (a.ONCE,)), (a.PLAIN, (a.ONCE, LEFT)), (a.PLAIN, (a.MANUAL,)), (a.PLAIN, None), (a.PLAIN, (LEFT,))
    )
    plan = plan_revert(saga, PERSON)
    assert [(each.step.number, each.work, each.blind, each.residue) for each in plan.steps] == [
        (5, Work.STAYS, False, ("the branch",)),
        (4, Work.UNBUILT, False, ()),
        (3, Work.PERSON, False, ()),
        (2, Work.UNDONE, True, ("the branch",)),
        (1, Work.UNDONE, False, ()),
    ]


def test_what_a_call_registered_itself_is_not_looked_at_whatever_its_pair_guards() -> None:
    (step,) = plan_revert(kept((GUARDED, (a.ONCE,)), registered=(1,)), PERSON).steps
    assert step.blind


def test_the_purpose_of_a_revert_is_no_longer_than_any_other() -> None:
    reverting = revert(replace(kept((a.PLAIN, (a.ONCE,))), purpose="a trip" * 33), PERSON, DRIVING)
    assert len(reverting.opened.purpose) == 200
    assert reverting.opened.purpose.startswith("revert of sg-old: a trip")


def test_steps_that_left_nothing_to_undo_are_no_work() -> None:
    opened: e.Event = e.SagaOpened(realm="r", driver="me", on_error=OnError.HOLD)
    failed = (e.StepIntended(step=1, plan=a.PLAIN, owner="me"), e.StepFailed(step=1))
    undone = (
        e.SavepointSet(name="S"),
        e.StepIntended(step=2, plan=a.PLAIN, owner="me"),
        e.StepSucceeded(step=2, parts=(LEFT,)),
        e.AbortRequested(cause="agent", target=4),
        e.UndoSucceeded(step=2, part="1"),
        e.RollbackFinished(),
    )
    stands = (e.StepIntended(step=3, plan=a.PLAIN, owner="me"), e.StepSucceeded(step=3, parts=(a.ONCE,)))
    saga = fold(Saga(id="sg-old"), [opened, *failed, *undone, *stands, e.SagaCommitted(by="agent", accepted=(1,))])
    assert [each.step.number for each in plan_revert(saga, PERSON).steps] == [3]
    new = revert(saga, PERSON, DRIVING).opened
    assert [(step.number, step.undoes) for step in new.steps] == [(1, 3)]
    assert summary(new) == "compensating: 0 undone, 1 open"


def test_the_new_saga_halts_whatever_the_old_one_did_and_begins_with_what_ended_last() -> None:
    plan = e.SagaOpened(realm="r", driver="me", on_undo_failure=OnUndoFailure.CONTINUE, caller="bob", purpose="a trip")
    events: list[e.Event] = [
        plan,
        e.StepIntended(step=1, plan=a.PLAIN, owner="me"),
        e.StepIntended(step=2, plan=a.PLAIN, owner="me"),
        e.StepSucceeded(step=2, parts=(a.ONCE,)),
        e.StepSucceeded(step=1, parts=(a.ONCE,)),
        e.SagaCommitted(by="agent"),
    ]
    new = revert(fold(Saga(id="sg-old"), events), PERSON, DRIVING).opened
    assert (new.on_undo_failure, new.caller, new.purpose) == (OnUndoFailure.HALT, "bob", "revert of sg-old: a trip")
    (duty,) = duties(new)
    assert isinstance(duty, RunUndo)
    assert (duty.step.number, duty.step.undoes) == (1, 1)


@pytest.mark.parametrize(
    ("saga", "why"),
    [
        (fold(Saga(id="sg-old"), [a.OPENED]), "it is not committed: saga_abort undoes it"),
        (fold(Saga(id="sg-old"), [a.OPENED, e.AbortRequested(cause="agent")]), "it was not kept"),
        (kept(), "none of its steps can be undone"),
        (kept((a.PLAIN, (LEFT,))), "none of its steps can be undone"),
        (kept((a.PLAIN, (a.CALL,)), (a.PIVOT, ())), "pivot passed the point of no return; a person undoes"),
    ],
    ids=["open", "undone", "empty", "left as configured", "past its pivot"],
)
def test_what_cannot_be_reverted_is_refused_with_the_reason(saga: Saga, why: str) -> None:
    with pytest.raises(RevertRefused, match=why):
        revert(saga, PERSON, DRIVING)


def test_a_late_effect_is_settled_before() -> None:
    events: list[e.Event] = [
        e.SagaOpened(realm="r", driver="me", on_error=OnError.HOLD),
        e.StepIntended(step=1, plan=a.PLAIN, owner="me"),
        e.StepFellInDoubt(step=1, reason="deadline", parts=(a.ONCE,)),
        e.StepSettled(step=1, landed=False, by=SettledBy.PERSON),
        e.StepIntended(step=2, plan=a.PLAIN, owner="me"),
        e.StepSucceeded(step=2, parts=(a.ONCE,)),
        e.SagaCommitted(by="agent", accepted=(1,)),
        e.StepSettled(step=1, landed=True, by=SettledBy.LATE_ANSWER, parts=(a.ONCE,)),
    ]
    with pytest.raises(RevertRefused, match=r"sg-old\.1 waits for a person: settle that first"):
        revert(fold(Saga(id="sg-old"), events), PERSON, DRIVING)


def test_a_rule_that_does_not_hold_is_no_reason_against_a_revert() -> None:
    """It may be the very reason for it."""
    steps: list[e.Event] = [
        a.OPENED,
        e.StepIntended(step=1, plan=a.PLAIN, owner="me"),
        e.StepSucceeded(step=1, parts=(a.CALL,)),
    ]
    pivot: list[e.Event] = [e.StepIntended(step=2, plan=a.PIVOT, owner="me"), e.StepSucceeded(step=2)]
    broken = e.InvariantViolated(name="rule", step=2)
    saga = fold(Saga(id="sg-old"), [*steps, *pivot, broken, e.SagaCommitted(by="agent")])
    assert saga.violations
    assert plan_revert(saga, replace(PERSON, step=1)).stays[0].step.number == 2


@pytest.mark.parametrize("parts", [(a.MANUAL,), None, (a.ONCE, a.MANUAL)], ids=["by hand", "not built", "both"])
def test_the_agent_is_sent_to_the_operator_where_a_person_is_needed(parts: a.Binding) -> None:
    saga = kept((GUARDED, (a.ONCE,)), (GUARDED, parts))
    with pytest.raises(RevertRefused, match="step 2 guarded cannot be undone without a person; ask the operator"):
        plan_revert(saga, AGENT)


def test_the_agent_reverts_what_is_guarded_and_leaves_what_is_left() -> None:
    saga = kept((GUARDED, (a.ONCE,)), (a.PLAIN, (LEFT,)))
    assert [each.step.number for each in plan_revert(saga, AGENT).steps] == [2, 1]


def test_each_step_is_handed_over_once() -> None:
    saga = kept((a.PLAIN, (a.CALL,)), (a.PLAIN, (a.CALL,)), (a.PLAIN, (a.CALL,)))
    saga = fold(saga, revert(saga, replace(PERSON, step=2, revert="sg-two"), DRIVING).noted)
    assert reverted_words(saga) == "reverted by sg-two (step 2)"
    rest = revert(saga, PERSON, DRIVING)
    assert [step.undoes for step in rest.opened.steps] == [1, 3]
    saga = fold(saga, rest.noted)
    assert reverted_words(saga) == "reverted by sg-two (step 2), sg-new (step 1, 3)"
    with pytest.raises(RevertRefused, match="already"):
        revert(saga, PERSON, DRIVING)


@pytest.mark.parametrize(("age_s", "window_s", "why"), [(0.0, 0.0, "switched off"), (11.0, 10.0, "days ago")])
def test_outside_of_its_window_a_saga_stays_as_it_is(age_s: float, window_s: float, why: str) -> None:
    with pytest.raises(RevertRefused, match=why):
        plan_revert(kept((a.PLAIN, (a.CALL,))), replace(PERSON, age_s=age_s, window_s=window_s))


def test_a_clock_that_went_back_shortens_no_window() -> None:
    assert plan_revert(kept((a.PLAIN, (a.CALL,))), replace(PERSON, age_s=-3600.0)).steps


def test_an_unknown_saga_is_not_found() -> None:
    with pytest.raises(SagaNotFound):
        plan_revert(Saga(id="sg-old"), PERSON)
