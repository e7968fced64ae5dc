"""How what was done is undone, by example (SEMANTICS.md S2.3, S5, S6, S14)."""

from __future__ import annotations

import pytest
from tests.domain import alphabet as a
from tests.domain.stories import DRIVING, LANDING, aborted, done, in_doubt, intended, late, saga_of, succeeded, undone

from saga_mcp.domain import approvals, step_decisions, undo_decisions
from saga_mcp.domain import events as e
from saga_mcp.domain import person_decisions as person
from saga_mcp.domain.attention import NEEDS_ATTENTION, items, reported_state, summary
from saga_mcp.domain.duties import ProbeUndo, RunUndo, duties
from saga_mcp.domain.errors import IllegalTransition, ItemRefused, SagaAborted
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import apply, fold
from saga_mcp.domain.saga_decisions import begin_step, commit, request_abort
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import Landing
from saga_mcp.domain.undo_decisions import UndoMiss
from saga_mcp.domain.values import Effect, ItemKind, OnError, PartState, Phase, SettledBy, StepState


def due(saga: Saga) -> list[int]:
    """Numbers of the steps whose undo is at turn."""
    return [duty.step.number for duty in duties(saga) if isinstance(duty, RunUndo)]


def parked(step: int, item: ItemKind = ItemKind.DEAD_LETTER) -> e.UndoParked:
    """The step's undo waits for a person."""
    return e.UndoParked(step=step, part="1", item=item)


# --- order (S5) -------------------------------------------------------------------------------------------------------


def test_steps_are_undone_in_the_reverse_of_the_order_in_which_they_ended() -> None:
    """S5.2: what ended before another started is undone after it."""
    saga = saga_of(intended(1), intended(2), succeeded(2), succeeded(1), aborted())
    assert due(saga) == [1]
    assert due(fold(saga, undone(1))) == [2]


def test_a_late_answer_does_not_change_the_order() -> None:
    """S5.2: the key is when the step first left `intended`."""
    saga = saga_of(intended(1), in_doubt(1, running=True), *done(2), late(1), aborted(), on_error=OnError.HOLD)
    assert due(saga) == [2]


def test_only_one_undo_runs_at_a_time() -> None:
    saga = saga_of(*done(1), *done(2), aborted(), e.UndoIntended(step=2, part="1", owner="me"))
    assert due(saga) == []
    with pytest.raises(IllegalTransition):
        apply(saga, e.UndoIntended(step=1, part="1", owner="me"))


def test_an_effect_that_comes_back_waits_for_the_undo_that_is_under_way() -> None:
    """S5.2, S5.5: two undos at once would be possible otherwise."""
    settled = e.StepSettled(step=2, landed=False, by=SettledBy.PROBE)
    undoing = e.UndoIntended(step=1, part="1", owner="me")
    saga = saga_of(*done(1), intended(2, a.PROBABLE), in_doubt(2), aborted(), settled, undoing)
    back = fold(saga, step_decisions.landed(saga, 2, LANDING, DRIVING))
    assert due(back) == []
    assert due(apply(back, e.UndoSucceeded(step=1, part="1"))) == [2]


def test_abort_closes_the_saga_before_it_waits_for_what_runs() -> None:
    """DESIGN.md rule 5; S5.1"""
    saga = saga_of(*done(1), intended(2))
    saga = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    with pytest.raises(SagaAborted):
        begin_step(saga, a.PLAIN, "me")
    assert duties(saga) == ()
    saga = fold(saga, step_decisions.landed(saga, 2, LANDING, DRIVING))
    assert due(saga) == [2]


@pytest.mark.parametrize(("halt", "then"), [(True, []), (False, [1])], ids=["halt", "continue"])
def test_a_stuck_undo_halts_the_older_ones_or_not_as_configured(halt: bool, then: list[int]) -> None:  # noqa: FBT001 - a parameter of the test
    """S5.4"""
    saga = saga_of(*done(1), *done(2), aborted(), parked(2), halt=halt)
    assert due(saga) == then
    assert reported_state(saga) == NEEDS_ATTENTION
    resumed = fold(saga, person.retry(saga, 2, by="ada", note="", driving=DRIVING))
    assert due(resumed) == [2]


def test_an_empty_saga_is_undone_at_once() -> None:
    saga = saga_of()
    assert fold(saga, request_abort(saga, DRIVING, cause="agent")).phase is Phase.COMPENSATED


# --- late effects (S5.5) ----------------------------------------------------------------------------------------------


def absent_then_undone(*parts: e.PartSpec) -> Saga:
    """Compensated, after a step was undone blindly."""
    doubt = e.StepFellInDoubt(step=1, reason="error", end_known=True, parts=parts)
    return saga_of(intended(1, a.PYTHON), doubt, aborted(), *undone(1), e.RollbackFinished())


def test_an_effect_that_lands_after_its_undo_is_undone_again_under_the_next_generation_of_its_key() -> None:
    """S5.5, S6.3; dtm calls it hanging."""
    saga = absent_then_undone(a.CALL)
    saga = fold(saga, step_decisions.landed(saga, 1, LANDING, DRIVING))
    assert saga.phase is Phase.COMPENSATING
    assert due(saga) == [1]
    assert [part.generation for part in saga.step(1).parts or ()] == [1]


def test_an_undo_that_is_not_idempotent_is_not_sent_a_second_time_without_a_person() -> None:
    """S5.5"""
    saga = absent_then_undone(a.ONCE)
    saga = fold(saga, step_decisions.landed(saga, 1, Landing(result=None, undo=BoundUndo(parts=(a.ONCE,))), DRIVING))
    assert (due(saga), reported_state(saga)) == ([], NEEDS_ATTENTION)


def test_an_undo_that_never_ran_is_no_second_one() -> None:
    """S5.5: the step was settled absent, so nothing was sent."""
    settled = e.StepSettled(step=1, landed=False, by=SettledBy.PROBE)
    saga = saga_of(intended(1, a.PROBABLE), in_doubt(1), aborted(), settled, e.RollbackFinished())
    saga = fold(saga, step_decisions.landed(saga, 1, Landing(result=None, undo=BoundUndo(parts=(a.ONCE,))), DRIVING))
    assert due(saga) == [1]


def test_an_effect_that_lands_while_its_undo_runs_is_undone_once_more() -> None:
    """S5.5: the undo under way may have met nothing."""
    doubt = in_doubt(1, end_known=True)
    saga = saga_of(intended(1, a.PYTHON), doubt, aborted(), e.UndoIntended(step=1, part="1", owner="me"))
    saga = fold(saga, step_decisions.landed(saga, 1, LANDING, DRIVING))
    saga = fold(saga, undo_decisions.undo_done(saga, 1, "1", "", DRIVING))
    assert saga.phase is Phase.COMPENSATING
    assert due(saga) == [1]


def test_a_late_effect_in_a_committed_saga_becomes_an_attention_item() -> None:
    """S5.5"""
    settled = e.StepSettled(step=1, landed=False, by=SettledBy.PROBE)
    saga = saga_of(intended(1, a.PROBABLE), in_doubt(1), settled, on_error=OnError.HOLD)
    saga = fold(saga, commit(saga, by="agent", accept_failed=(1,)))
    saga = fold(saga, step_decisions.landed(saga, 1, LANDING, DRIVING))
    assert (saga.phase, reported_state(saga)) == (Phase.COMMITTED, NEEDS_ATTENTION)
    assert [item.kind for item in items(saga)] == [ItemKind.LATE_EFFECT]
    settled_by_hand = fold(saga, person.resolve_undone(saga, 1, by="ada", note="", driving=DRIVING))
    assert reported_state(settled_by_hand) == "committed"


def test_a_late_effect_of_what_a_savepoint_rollback_undid_is_not_kept_as_if_it_were_done() -> None:
    """DESIGN.md rule 11: undone work is never presented as kept."""
    marked = saga_of(e.SavepointSet(name="S"), intended(1, a.PYTHON), in_doubt(1, end_known=True))
    saga = fold(marked, (aborted(marked.savepoints[0].seq), *undone(1), e.RollbackFinished()))
    saga = fold(saga, step_decisions.landed(saga, 1, LANDING, DRIVING))
    assert (saga.phase, saga.step(1).state) == (Phase.ACTIVE, StepState.COMPENSATED)
    assert [item.kind for item in items(saga)] == [ItemKind.LATE_EFFECT]


def test_a_pivot_that_lands_during_a_rollback_stops_it_and_asks_a_person() -> None:
    """S7: nothing is undone across a pivot, even where stuck undos do not halt the older ones."""
    settled = e.StepSettled(step=2, landed=False, by=SettledBy.PROBE)
    pivot = (intended(2, a.PROBABLE_PIVOT), in_doubt(2), settled)
    saga = saga_of(*done(1), *pivot, aborted(), halt=False)
    saga = fold(saga, step_decisions.landed(saga, 2, LANDING, DRIVING))
    assert (due(saga), reported_state(saga)) == ([], NEEDS_ATTENTION)
    exempt = fold(saga, person.exempt(saga, 2, by="ada", note="", driving=DRIVING))
    assert due(exempt) == [1]


# --- parts, attempts, doubt (S6) --------------------------------------------------------------------------------------


def test_parts_run_in_written_order_and_what_the_call_registered_after_them_newest_first() -> None:
    """S6.2"""
    registered = [e.UndoRegistered(step=1, part=a.CALL), e.UndoRegistered(step=1, part=a.ONCE)]
    saga = saga_of(intended(1), *registered, succeeded(1, a.CALL, a.CALL), aborted())
    assert [part.id for part in saga.step(1).parts or ()] == ["1", "2", "r2", "r1"]
    saga = fold(saga, undone(1, "1"))
    assert saga.step(1).state is StepState.COMPENSATING
    with pytest.raises(IllegalTransition):
        apply(saga, e.UndoIntended(step=1, part="r1", owner="me"))


def test_a_step_whose_undo_cannot_be_built_is_told_now_and_blocks_nothing_before_an_abort() -> None:
    """S6.1"""
    saga = saga_of(intended(1), e.StepSucceeded(step=1, parts=None, build_error="no id"))
    assert [(item.kind, item.message) for item in items(saga)] == [(ItemKind.CANNOT_BUILD, "no id")]
    assert reported_state(saga) == "active"
    assert reported_state(apply(saga, aborted())) == NEEDS_ATTENTION


def test_a_result_that_a_person_knows_builds_the_undo_that_could_not_be_built() -> None:
    """S14.3"""
    saga = saga_of(intended(1), e.StepSucceeded(step=1, parts=None), aborted())
    undo = BoundUndo(parts=(a.CALL,))
    after = fold(saga, person.resolve_landed(saga, 1, Landing(result=7, undo=undo), by="ada", note="", driving=DRIVING))
    assert due(after) == [1]


def test_where_no_undo_holds_nothing_reads_compensated() -> None:
    """S6.2"""
    saga = saga_of(intended(1), e.StepSucceeded(step=1, parts=()))
    saga = fold(saga, request_abort(saga, DRIVING, cause="agent"))
    assert reported_state(saga) == NEEDS_ATTENTION


def test_an_undo_of_unknown_outcome_is_sent_again_only_where_it_is_idempotent() -> None:
    """S6.4"""
    lost_undo = (e.UndoIntended(step=1, part="1", owner="me"), e.UndoFellInDoubt(step=1, part="1", reason="lost"))
    assert due(saga_of(*done(1, a.CALL), aborted(), *lost_undo)) == [1]
    once = saga_of(*done(1, a.ONCE), aborted(), *lost_undo)
    assert [item.kind for item in items(once)] == [ItemKind.UNDO_IN_DOUBT]
    probed = saga_of(*done(1, a.PROBED), aborted(), *lost_undo)
    assert [type(duty) for duty in duties(probed)] == [ProbeUndo]


def test_a_probe_says_nothing_about_an_undo_that_still_runs() -> None:
    running = e.UndoFellInDoubt(step=1, part="1", reason="timeout", running=True)
    saga = saga_of(*done(1, a.PROBED), aborted(), e.UndoIntended(step=1, part="1", owner="me"), running)
    assert undo_decisions.undo_probed(saga, 1, "1", done=False, driving=DRIVING) == ()


def test_attempts_that_never_reached_the_upstream_cost_no_attempts() -> None:
    """S6.5"""
    saga = saga_of(*done(1), aborted(), e.UndoIntended(step=1, part="1", owner="me"))
    miss = UndoMiss(effect=Effect.NONE, error="unreachable", counted=False)
    saga = fold(saga, undo_decisions.undo_missed(saga, 1, "1", miss, DRIVING))
    part = saga.step(1).next_part
    assert part is not None
    assert (part.attempts, part.tries) == (0, 1)


def test_a_late_answer_of_an_undo_that_was_given_up_still_counts() -> None:
    """S3.6"""
    sent = (e.UndoIntended(step=1, part="1", owner="me"), e.UndoFellInDoubt(step=1, part="1", reason="lost"))
    saga = saga_of(*done(1, a.ONCE), aborted(), *sent, parked(1))
    after = fold(saga, undo_decisions.undo_done(saga, 1, "1", "", DRIVING))
    assert after.phase is Phase.COMPENSATED


def test_what_becomes_of_an_undo_after_its_step_was_exempted_changes_nothing() -> None:
    sent = (e.UndoIntended(step=1, part="1", owner="me"), e.UndoFellInDoubt(step=1, part="1", reason="lost"))
    saga = saga_of(*done(1, a.ONCE), aborted(), *sent, e.StepExempted(step=1, by="ada"), e.RollbackFinished())
    after = fold(saga, undo_decisions.undo_done(saga, 1, "1", "", DRIVING))
    assert (after.phase, after.step(1).state) == (Phase.COMPENSATED, StepState.EXEMPT)


@pytest.mark.parametrize(
    ("plan", "end_known", "blind"),
    [(a.PYTHON, True, True), (a.PYTHON, False, False), (a.PLAIN, True, False)],
    ids=["harmless-and-ended", "end-unknown", "not-declared-harmless"],
)
def test_a_doubtful_step_is_undone_blindly_only_where_that_is_safe_and_its_call_has_ended(
    plan: e.StepPlan,
    end_known: bool,  # noqa: FBT001 - a parameter of the test
    blind: bool,  # noqa: FBT001 - see above
) -> None:
    """S6.8"""
    saga = saga_of(intended(1, plan), in_doubt(1, end_known=end_known), aborted())
    assert (due(saga) == [1], reported_state(saga) == NEEDS_ATTENTION) == (blind, not blind)


# --- a person (S14.3) -------------------------------------------------------------------------------------------------


def test_a_verb_that_does_not_fit_is_refused_with_where_to_see_those_that_do() -> None:
    saga = saga_of(*done(1, a.MANUAL), aborted(), parked(1, ItemKind.MANUAL_UNDO))
    with pytest.raises(ItemRefused, match=r"`retry` does not fit.*See `saga-mcp show sg-1\.1`"):
        person.retry(saga, 1, by="ada", note="", driving=DRIVING)


def test_a_person_undoes_one_part_by_hand_and_the_others_go_on() -> None:
    saga = saga_of(*done(1, a.MANUAL, a.CALL), aborted(), parked(1, ItemKind.MANUAL_UNDO))
    after = fold(saga, person.resolve_undone(saga, 1, by="ada", note="", driving=DRIVING))
    assert [part.state for part in after.step(1).parts or ()] == [PartState.DONE, PartState.PENDING]
    assert due(after) == [1]


def test_a_guard_conflict_is_overwritten_or_kept() -> None:
    saga = saga_of(*done(1), aborted(), parked(1, ItemKind.GUARD_CONFLICT))
    overwritten = fold(saga, person.overwrite(saga, 1, by="ada", note="", driving=DRIVING))
    part = overwritten.step(1).next_part
    assert part is not None
    assert part.overwrite
    kept = fold(saga, person.exempt(saga, 1, by="ada", note="", driving=DRIVING))
    assert (kept.phase, kept.step(1).state) == (Phase.COMPENSATED, StepState.EXEMPT)


def test_a_person_allows_or_forbids_a_call_that_waits_for_approval() -> None:
    """S9.1"""
    saga = saga_of(e.StepAwaitingApproval(step=1, plan=a.PLAIN))
    assert fold(saga, approvals.approve(saga, 1, by="ada", note="", now=0.0)).step(1).approved
    rejected = fold(saga, approvals.reject(saga, 1, by="ada", note="no", driving=DRIVING))
    assert rejected.step(1).state is StepState.CANCELLED


# --- the line that sums it up (S2.3) ----------------------------------------------------------------------------------


def test_the_summary_names_everything_that_became_of_the_steps() -> None:
    saga = saga_of(*done(1), *done(2, a.MANUAL), *done(3, a.LEAVE), *done(4), *done(5), *done(6), aborted())
    saga = fold(saga, (*undone(6), *undone(5), parked(4), e.StepExempted(step=4, by="ada")))
    saga = fold(
        saga, (e.UndoSucceeded(step=3, part="1"), parked(2, ItemKind.MANUAL_UNDO), e.UndoResolved(step=2, by="bob"))
    )
    saga = fold(saga, (*undone(1), e.RollbackFinished()))
    assert summary(saga) == "compensated: 3 undone, 1 by a person, 1 residue, 1 exempt (ada), 0 open"


@pytest.mark.parametrize(
    ("events", "line"),
    [
        ((), "active: 0 done, 0 open"),
        ((*done(1), intended(2)), "active: 1 done, 1 running, 0 open"),
        ((*done(1), e.SagaCommitted(by="agent")), "committed: 1 done, 0 open"),
        ((*done(1), *done(2), aborted(), *undone(2)), "compensating: 1 undone, 1 open"),
        ((*done(1), aborted(), parked(1)), "needs_attention: 0 undone, 1 open"),
        (
            (intended(1), e.StepFailed(step=1), aborted(), e.RollbackFinished()),
            "compensated: 0 undone, 1 without effect, 0 open",
        ),
    ],
)
def test_the_summary_of_a_saga(events: tuple[e.Event, ...], line: str) -> None:
    assert summary(saga_of(*events)) == line


def test_a_step_that_a_person_only_settled_and_the_server_undid_is_not_counted_as_undone_by_hand() -> None:
    saga = saga_of(intended(1), in_doubt(1), aborted())
    undo = BoundUndo(parts=(a.CALL,))
    saga = fold(saga, person.resolve_landed(saga, 1, Landing(result=1, undo=undo), by="ada", note="", driving=DRIVING))
    saga = fold(saga, (*undone(1), e.RollbackFinished()))
    assert summary(saga) == "compensated: 1 undone, 0 open"


def test_an_error_cannot_take_back_what_the_call_registered() -> None:
    """docs/decisions.md 15: `NoEffect` after `on_undo` would leave the part in the world."""
    saga = saga_of(intended(1), e.UndoRegistered(step=1, part=a.CALL))
    saga = fold(
        saga, step_decisions.missed(saga, 1, step_decisions.Miss(effect=Effect.NONE, error="no addresses"), DRIVING)
    )
    assert saga.step(1).state is StepState.IN_DOUBT
    assert saga.phase is Phase.COMPENSATING
