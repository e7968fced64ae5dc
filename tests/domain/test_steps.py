"""What is known of a forward action, by example (SEMANTICS.md S2 to S4)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.domain import alphabet as a
from tests.domain.stories import (
    DRIVING,
    LANDING,
    UNDO,
    aborted,
    bind,
    done,
    in_doubt,
    intended,
    late,
    saga_of,
    succeeded,
    undone,
    unknown_attempt,
)

from saga_mcp.domain import events as e
from saga_mcp.domain import step_decisions
from saga_mcp.domain.attention import NEEDS_ATTENTION, items, reported_state, summary
from saga_mcp.domain.duties import Abort, Probe, Resend, duties
from saga_mcp.domain.errors import CommitRefused, IllegalTransition, KindRefused, PivotPassed, StepUnsettled
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import apply, fold
from saga_mcp.domain.saga_decisions import begin_step, commit, request_abort, set_savepoint, take_over
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import Miss
from saga_mcp.domain.takeover import lost
from saga_mcp.domain.values import Effect, ItemKind, OnError, PartState, Phase, SettledBy, StepState

PIVOTED = (*done(1, plan=a.PIVOT),)


@pytest.mark.parametrize(
    ("history", "event"),
    [
        pytest.param([intended(1)], e.SagaCommitted(by="agent"), id="commit-while-a-step-runs"),
        pytest.param([intended(1), in_doubt(1)], e.SagaCommitted(by="agent"), id="commit-in-doubt"),
        pytest.param([intended(1), e.StepFailed(step=1)], e.SagaCommitted(by="agent"), id="commit-what-failed"),
        pytest.param(PIVOTED, aborted(), id="abort-across-the-pivot"),
        pytest.param([intended(1, a.PIVOT), in_doubt(1)], aborted(), id="abort-with-the-pivot-in-doubt"),
        pytest.param([intended(1)], intended(2, a.PIVOT), id="pivot-while-a-step-runs"),
        pytest.param([intended(1), in_doubt(1)], intended(2, a.PIVOT), id="pivot-with-a-step-in-doubt"),
        pytest.param([intended(1, a.PIVOT)], intended(2), id="step-while-the-pivot-runs"),
        pytest.param(PIVOTED, intended(2), id="compensable-step-after-the-pivot"),
        pytest.param(PIVOTED, intended(2, a.PIVOT), id="second-pivot"),
        pytest.param(PIVOTED, e.SavepointSet(name="S"), id="save-point-after-the-pivot"),
        pytest.param([], intended(1, a.AGAIN), id="retriable-step-before-the-pivot"),
        pytest.param([intended(1)], e.SavepointSet(name="S"), id="save-point-while-a-step-runs"),
        pytest.param([intended(1), in_doubt(1)], e.StepAttempted(step=1, owner="me"), id="sent-again-on-a-guess"),
        pytest.param([*done(1), aborted()], intended(2), id="step-while-compensating"),
        pytest.param([*done(1), aborted(), *undone(1)], e.SagaCommitted(by="agent"), id="commit-what-is-undone"),
        pytest.param([*done(1), aborted()], e.RollbackFinished(), id="end-before-the-end"),
        pytest.param([*done(1)], aborted(99), id="abort-to-no-save-point"),
    ],
)
def test_an_illegal_transition_is_refused_and_changes_nothing(history: list[e.Event], event: e.Event) -> None:
    """Saga contract; the pivot rules are Richardson 2018, ch. 4."""
    saga = saga_of(*history)
    with pytest.raises(IllegalTransition):
        apply(saga, event)
    assert saga == saga_of(*history)


def test_a_saga_that_was_never_opened_takes_no_event() -> None:
    with pytest.raises(IllegalTransition):
        apply(Saga(id="sg-1"), intended(1))


def test_after_one_unknown_attempt_a_refusal_leaves_the_step_in_doubt() -> None:
    """S3.2: it becomes failed only if every attempt is known to have had no effect."""
    saga = saga_of(intended(1, a.PYTHON), unknown_attempt(1), e.StepAttempted(step=1, owner="me"))
    after = fold(saga, step_decisions.missed(saga, 1, Miss(effect=Effect.NONE, error="no"), DRIVING))
    assert after.step(1).state is StepState.IN_DOUBT


def test_a_late_refusal_of_the_only_attempt_settles_the_doubt() -> None:
    saga = saga_of(intended(1), in_doubt(1, running=True))
    after = fold(saga, step_decisions.missed(saga, 1, Miss(effect=Effect.NONE, error="no"), DRIVING))
    assert after.step(1).state is StepState.FAILED
    assert after.phase is Phase.COMPENSATED


UNSENT = Miss(effect=Effect.NONE, error="refused", sent=False)


def test_a_call_that_never_went_out_ends_without_effect_and_undoes_nothing() -> None:
    saga = saga_of(*done(1), intended(2))
    after = fold(saga, step_decisions.missed(saga, 2, UNSENT, DRIVING))
    assert (after.phase, after.step(2).state, duties(after)) == (Phase.ACTIVE, StepState.FAILED, ())
    with pytest.raises(CommitRefused, match=r"accept_failed=\[2\]"):
        commit(after, by="agent")
    assert commit(after, by="agent", accept_failed=(2,))


def test_a_point_of_no_return_that_never_went_out_is_not_passed_and_lets_a_waiting_abort_go_on() -> None:
    saga = saga_of(*done(1), intended(2, a.PIVOT))
    alone = fold(saga, step_decisions.missed(saga, 2, UNSENT, DRIVING))
    assert (alone.phase, alone.pivot_unsettled, alone.pivot_passed) == (Phase.ACTIVE, False, False)
    wanted = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    assert wanted.phase is Phase.ACTIVE
    assert fold(wanted, step_decisions.missed(wanted, 2, UNSENT, DRIVING)).phase is Phase.COMPENSATING


def test_a_retriable_step_that_never_went_out_is_sent_again_until_a_person_is_asked() -> None:
    saga = saga_of(*PIVOTED, intended(2, a.AGAIN))
    again = fold(saga, step_decisions.missed(saga, 2, replace(UNSENT, more=True), DRIVING))
    assert [type(duty) for duty in duties(again)] == [Resend]
    asked = fold(saga, step_decisions.missed(saga, 2, UNSENT, DRIVING))
    assert [item.kind for item in items(asked)] == [ItemKind.RETRIABLE_EXHAUSTED]


def test_one_that_never_went_out_after_its_time_limit_settles_the_doubt_and_undoes_nothing() -> None:
    saga = saga_of(*done(1), intended(2), in_doubt(2, running=True))
    after = fold(saga, step_decisions.missed(saga, 2, UNSENT, DRIVING))
    assert (after.phase, after.step(2).state, duties(after)) == (Phase.ACTIVE, StepState.FAILED, ())


def test_an_earlier_attempt_of_unknown_outcome_is_not_forgotten_for_one_that_never_went_out() -> None:
    saga = saga_of(intended(1, a.PYTHON), unknown_attempt(1), e.StepAttempted(step=1, owner="me"))
    after = fold(saga, step_decisions.missed(saga, 1, UNSENT, DRIVING))
    assert after.step(1).state is StepState.IN_DOUBT
    assert after.phase is Phase.COMPENSATING


def test_a_time_limit_ends_the_wait_and_not_the_call() -> None:
    """S3.3"""
    saga = saga_of(intended(1, a.PYTHON))
    saga = fold(saga, step_decisions.goes_on(saga, 1, reason="timeout", driving=DRIVING))
    assert (saga.step(1).state, saga.step(1).running) == (StepState.IN_DOUBT, True)
    saga = fold(saga, step_decisions.abort_after_wait(saga, 1, DRIVING))
    assert (saga.phase, duties(saga)) == (Phase.COMPENSATING, ())
    saga = fold(saga, step_decisions.landed(saga, 1, LANDING, DRIVING))
    assert len(duties(saga)) == 1


def test_a_thread_past_its_deadline_waits_for_a_person() -> None:
    """S3.3"""
    saga = saga_of(intended(1, a.PYTHON), in_doubt(1, running=True))
    saga = fold(saga, step_decisions.overdue(saga, 1, DRIVING))
    assert [item.kind for item in items(saga)] == [ItemKind.IN_DOUBT]
    assert duties(saga) == ()


def test_a_probe_cannot_settle_absent_a_call_that_still_runs() -> None:
    """S3.4"""
    saga = saga_of(intended(1, a.PROBABLE), in_doubt(1, running=True))
    assert step_decisions.probed_absent(saga, 1, DRIVING) == ()
    assert step_decisions.probed_landed(saga, 1, LANDING, DRIVING) != ()


def test_only_the_actions_of_a_dead_owner_fall_in_doubt() -> None:
    """S3.5"""
    saga = saga_of(intended(1), e.StepIntended(step=2, plan=a.PLAIN, owner="other"), on_error=OnError.HOLD)
    after = fold(saga, lost(saga, lambda owner: owner == "other", bind))
    assert [step.state for step in after.steps] == [StepState.INTENDED, StepState.IN_DOUBT]


def test_recovery_aborts_by_the_same_rule_as_a_live_failure() -> None:
    """S4.2: a process died between two attempts, each known to have had no effect."""
    between = e.StepAttemptEnded(step=2, effect=Effect.NONE)
    saga = saga_of(*done(1), intended(2), between)
    after = fold(saga, take_over(saga, DRIVING, lambda _: True))
    assert after.step(2).state is StepState.FAILED
    assert after.phase is Phase.COMPENSATING


def test_a_failure_aborts_in_the_same_append() -> None:
    """S4.2"""
    saga = saga_of(*done(1), intended(2))
    events = step_decisions.missed(saga, 2, Miss(effect=Effect.NONE, error="no"), DRIVING)
    assert [type(event) for event in events] == [e.StepFailed, e.AbortRequested]


def test_a_doubt_that_can_be_probed_is_probed_before_anything_is_aborted() -> None:
    """S4.2"""
    saga = saga_of(intended(1, a.PROBABLE))
    saga = fold(saga, step_decisions.run_lost(saga, 1, reason="transport_lost", end_known=False, driving=DRIVING))
    assert saga.phase is Phase.ACTIVE
    assert [type(duty) for duty in duties(saga)] == [Probe]
    saga = fold(saga, step_decisions.probes_ended(saga, 1, DRIVING))
    assert saga.phase is Phase.COMPENSATING


def test_a_sibling_between_two_attempts_is_not_sent_again_once_the_saga_aborts() -> None:
    """S4.3"""
    saga = saga_of(intended(1), intended(2), e.StepAttemptEnded(step=2, effect=Effect.NONE))
    after = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    assert after.step(2).state is StepState.FAILED
    assert step_decisions.attempt_again(after, 2, "me") == ()


def test_hold_keeps_the_saga_active_until_the_failure_is_accepted() -> None:
    """S4.4"""
    saga = saga_of(intended(1), on_error=OnError.HOLD)
    saga = fold(saga, step_decisions.missed(saga, 1, Miss(effect=Effect.NONE, error="no"), DRIVING))
    assert saga.phase is Phase.ACTIVE
    with pytest.raises(CommitRefused, match=r"accept_failed=\[1\]"):
        commit(saga, by="agent")
    assert fold(saga, commit(saga, by="agent", accept_failed=(1,))).phase is Phase.COMMITTED


def test_a_later_success_under_the_same_step_key_supersedes_a_failure() -> None:
    """S4.4"""
    keyed = e.StepPlan(tool="t", kind=a.PLAIN.kind, step_key="seat")
    saga = saga_of(intended(1, keyed), e.StepFailed(step=1), *done(2, plan=keyed), on_error=OnError.HOLD)
    assert fold(saga, commit(saga, by="agent")).phase is Phase.COMMITTED


def test_commit_says_everything_that_is_in_its_way_at_once() -> None:
    saga = saga_of(intended(1), intended(2), in_doubt(2), on_error=OnError.HOLD)
    with pytest.raises(CommitRefused) as refused:
        commit(saga, by="agent")
    assert refused.value.steps == (1, 2)


def test_committing_twice_is_harmless() -> None:
    saga = saga_of(*done(1), e.SagaCommitted(by="agent"))
    assert commit(saga, by="agent") == ()


# --- pivot and save-points (S7) ---------------------------------------------------------------------------------------


def test_an_abort_during_the_pivot_waits_and_runs_when_the_pivot_fails() -> None:
    """S7.1"""
    saga = saga_of(*done(1), intended(2, a.PIVOT))
    saga = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    assert (saga.phase, saga.abort_wanted is not None) == (Phase.ACTIVE, True)
    with pytest.raises(StepUnsettled):
        begin_step(saga, a.PLAIN, "me")
    after = fold(saga, step_decisions.missed(saga, 2, Miss(effect=Effect.NONE, error="no"), DRIVING))
    assert after.phase is Phase.COMPENSATING


def test_an_abort_that_waited_is_void_once_the_pivot_has_succeeded() -> None:
    """S7.1"""
    saga = saga_of(*done(1), intended(2, a.PIVOT))
    saga = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    saga = fold(saga, step_decisions.landed(saga, 2, LANDING, DRIVING))
    assert (saga.abort_wanted, saga.phase) == (None, Phase.ACTIVE)
    assert fold(saga, commit(saga, by="agent")).phase is Phase.COMMITTED


def test_an_abort_ends_a_pivot_that_was_between_two_attempts() -> None:
    """S4.3, S7.1: it is not sent again, so nothing has to be waited for."""
    saga = saga_of(*done(1), intended(2, a.PIVOT), e.StepAttemptEnded(step=2, effect=Effect.NONE))
    after = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    assert (after.step(2).state, after.phase) == (StepState.FAILED, Phase.COMPENSATING)


def test_after_the_pivot_the_saga_only_goes_forward() -> None:
    """Richardson 2018, ch. 4; S7.2"""
    saga = saga_of(*PIVOTED)
    with pytest.raises(PivotPassed):
        request_abort(saga, DRIVING, cause="agent")
    with pytest.raises(PivotPassed):
        set_savepoint(saga, "S")
    with pytest.raises(KindRefused):
        begin_step(saga, a.PLAIN, "me")


def test_a_retriable_step_is_sent_again_until_it_succeeds_or_its_attempts_are_used_up() -> None:
    """S7.2"""
    saga = saga_of(*PIVOTED, intended(2, a.AGAIN))
    saga = fold(saga, step_decisions.missed(saga, 2, Miss(effect=Effect.UNKNOWN, error="no", more=True), DRIVING))
    assert [type(duty) for duty in duties(saga)] == [Resend]
    saga = fold(saga, step_decisions.give_up_retriable(saga, 2, "no"))
    assert [item.kind for item in items(saga)] == [ItemKind.RETRIABLE_EXHAUSTED]
    assert reported_state(saga) == NEEDS_ATTENTION


def test_a_retriable_step_that_is_not_idempotent_is_probed_and_never_sent_on_a_guess() -> None:
    """S3.2"""
    saga = saga_of(*PIVOTED, intended(2, a.LOOKED_UP))
    saga = fold(saga, step_decisions.missed(saga, 2, Miss(effect=Effect.UNKNOWN, error="no", more=True), DRIVING))
    assert [type(duty) for duty in duties(saga)] == [Probe]
    blind = fold(saga, step_decisions.probes_ended(saga, 2, DRIVING))
    assert (duties(blind), reported_state(blind)) == ((), NEEDS_ATTENTION)
    absent = fold(saga, step_decisions.probed_absent(saga, 2, DRIVING))
    assert [type(duty) for duty in duties(absent)] == [Resend]


def test_a_broken_invariant_aborts_before_the_pivot_and_asks_a_person_after_it() -> None:
    """S7.2, S9.3"""
    broken = step_decisions.Landing(result=None, undo=BoundUndo(parts=(a.CALL,)), violated=("no_negative_balance",))
    before = saga_of(intended(1))
    assert fold(before, step_decisions.landed(before, 1, broken, DRIVING)).phase is Phase.COMPENSATING
    after = saga_of(*PIVOTED, intended(2, a.AGAIN))
    after = fold(after, step_decisions.landed(after, 2, broken, DRIVING))
    assert [item.kind for item in items(after)] == [ItemKind.INVARIANT]
    assert (after.phase, reported_state(after)) == (Phase.ACTIVE, "active")


def test_rollback_to_a_savepoint_reopens_the_saga() -> None:
    """Garcia-Molina & Salem 1987: backward recovery to a save-point, then forward again."""
    saga = saga_of(*done(1), e.SavepointSet(name="S"), *done(2))
    saga = fold(saga, request_abort(saga, DRIVING, cause="agent", to_savepoint="S"))
    saga = fold(saga, (*undone(2), e.RollbackFinished()))
    assert saga.phase is Phase.ACTIVE
    assert [step.state for step in saga.steps] == [StepState.SUCCEEDED, StepState.COMPENSATED]
    assert saga.savepoint("S") is not None
    assert fold(saga, (*done(3), *commit(fold(saga, done(3)), by="agent"))).phase is Phase.COMMITTED


def test_an_abort_to_a_savepoint_drops_later_marks_and_a_name_set_twice_moves() -> None:
    """S7.3"""
    marks = (e.SavepointSet(name="A"), *done(1), e.SavepointSet(name="B"), *done(2), e.SavepointSet(name="A"))
    saga = saga_of(*marks)
    assert [mark.name for mark in saga.savepoints] == ["B", "A"]
    saga = fold(saga, request_abort(saga, DRIVING, cause="agent", to_savepoint="B"))
    assert [mark.name for mark in saga.savepoints] == ["B"]


def test_an_abort_of_the_whole_saga_widens_one_to_a_savepoint() -> None:
    """S5.1: target = min(target, new)."""
    saga = saga_of(*done(1), e.SavepointSet(name="S"), *done(2))
    saga = fold(saga, request_abort(saga, DRIVING, cause="agent", to_savepoint="S"))
    saga = fold(saga, request_abort(saga, DRIVING, cause="operator"))
    assert (saga.target, saga.cause) == (0, "operator")
    assert request_abort(saga, DRIVING, cause="agent") == ()


def test_the_policy_of_a_saga_makes_an_abort_due_after_a_crash() -> None:
    saga = saga_of(intended(1), in_doubt(1))
    assert [type(duty) for duty in duties(saga)] == [Abort]


def test_a_late_success_of_a_failed_step_joins_the_saga_while_it_is_active() -> None:
    """S3.6: late answers are legal in every phase."""
    settled = e.StepSettled(step=1, landed=False, by=SettledBy.PROBE)
    saga = saga_of(intended(1, a.PROBABLE), in_doubt(1), settled, on_error=OnError.HOLD)
    assert apply(saga, late(1)).step(1).state is StepState.SUCCEEDED


def test_an_approved_step_is_sent_once_and_exactly_as_it_was_approved() -> None:
    """S9.1"""
    asked = e.StepAwaitingApproval(step=1, plan=a.PLAIN)
    saga = saga_of(asked)
    with pytest.raises(CommitRefused, match="waits for an approval"):
        commit(saga, by="agent")
    with pytest.raises(IllegalTransition):
        apply(saga, intended(1))
    approved = apply(saga, e.StepApproved(step=1, by="ada"))
    with pytest.raises(IllegalTransition):
        apply(approved, intended(1, a.PYTHON))
    assert fold(approved, (intended(1), succeeded(1))).step(1).state is StepState.SUCCEEDED


def test_an_abort_cancels_a_call_that_waits_for_approval() -> None:
    """S9.1: nothing was sent."""
    saga = saga_of(e.StepAwaitingApproval(step=1, plan=a.PLAIN))
    after = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    assert (after.step(1).state, after.phase) == (StepState.CANCELLED, Phase.COMPENSATED)


def test_reading_flagging_and_losing_a_reply_change_nothing_that_counts() -> None:
    saga = saga_of(*done(1), e.ReadRecorded(tool="look"), e.ReplyLost(step=1), e.SagaIdled())
    assert [item.kind for item in items(saga)] == [ItemKind.IDLE]
    assert (reported_state(saga), saga.step(1).reply_lost) == ("active", True)


def test_the_time_of_a_doubt_is_counted_from_the_end_of_its_call() -> None:
    """S4.2: what still runs is aborted after the wait; what has ended meanwhile is probed for its full time."""
    saga = saga_of(intended(1, a.PROBABLE), in_doubt(1, running=True))
    assert step_decisions.abort_after_wait(saga, 1, DRIVING)
    ended = fold(saga, [e.StepRunEnded(step=1, end_known=True)])
    assert step_decisions.abort_after_wait(ended, 1, DRIVING) == ()


def _said_landed_while_it_ran(*more: e.Event, on_error: OnError = OnError.ABORT) -> Saga:
    overdue = (intended(1), in_doubt(1, running=True), e.StepOverdue(step=1))
    word = e.StepSettled(step=1, landed=True, by=SettledBy.PERSON, parts=UNDO)
    return saga_of(*overdue, word, *more, on_error=on_error)


def test_an_effect_that_lands_after_it_was_undone_on_a_persons_word_is_undone_again() -> None:
    """S3.6, S5.5: what a person said of a call that still ran does not silence the call itself."""
    saga = _said_landed_while_it_ran(aborted(), *undone(1), e.RollbackFinished())
    saga = fold(saga, step_decisions.landed(saga, 1, LANDING, DRIVING))
    assert saga.phase is Phase.COMPENSATING
    part = saga.step(1).next_part
    assert part is not None
    assert part.generation == 1 or part.state is PartState.WAITING


def test_a_call_that_says_it_did_nothing_overrules_a_person_who_said_it_did() -> None:
    """Nothing is reported as done that is not, also after the commit."""
    saga = _said_landed_while_it_ran(e.SagaCommitted(by="agent"), on_error=OnError.HOLD)
    saga = fold(saga, step_decisions.missed(saga, 1, Miss(effect=Effect.NONE, error="refused"), DRIVING))
    assert saga.step(1).state is StepState.FAILED
    assert summary(saga) == "committed: 0 done, 1 without effect, 0 open"
