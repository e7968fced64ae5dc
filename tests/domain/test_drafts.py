"""A draft hands on the state that its events lead to, so that nobody works it out twice, and only where it is true."""

from __future__ import annotations

import pytest
from tests.domain.stories import DRIVING, LANDING, done, intended, saga_of

from saga_mcp.domain import draft, events, saga_decisions, step_decisions
from saga_mcp.domain.draft import Drafted, after
from saga_mcp.domain.errors import IllegalTransition
from saga_mcp.domain.machine import fold
from saga_mcp.domain.state import Saga


def test_the_state_a_draft_hands_on_is_the_fold_of_its_events() -> None:
    saga = saga_of(*done(1), *done(2))
    made = saga_decisions.request_abort(saga, DRIVING, cause="agent")
    assert made
    assert after(saga, made) == fold(saga, tuple(made))


def test_what_a_draft_applied_is_not_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    saga = saga_of(intended(1))
    made = step_decisions.landed(saga, 1, LANDING, DRIVING)

    def again(_saga: Saga, _events: object) -> Saga:
        raise AssertionError

    monkeypatch.setattr(draft, "fold", again)
    assert after(saga, made).seq == saga.seq + 1


def test_events_drafted_for_another_state_are_checked_on_the_one_they_meet() -> None:
    saga = saga_of(intended(1))
    made = step_decisions.landed(saga, 1, LANDING, DRIVING)
    moved = fold(saga, [events.StepFailed(step=1)])
    with pytest.raises(IllegalTransition):
        after(moved, made)


def test_events_taken_out_of_a_draft_are_checked_like_any_others() -> None:
    saga = saga_of(*done(1))
    made = saga_decisions.request_abort(saga, DRIVING, cause="agent")
    assert isinstance(made, Drafted)
    with pytest.raises(IllegalTransition):
        after(saga, (*made, *made))


def test_a_decision_in_a_decision_goes_on_from_where_the_first_one_is() -> None:
    saga = saga_of(intended(1), intended(2))
    both = draft.Draft(saga)
    both.add_all(step_decisions.landed(both.saga, 1, LANDING, DRIVING))
    both.add_all((events.StepFailed(step=2),))
    made = both.close(DRIVING)
    assert after(saga, made) == fold(saga, tuple(made))
