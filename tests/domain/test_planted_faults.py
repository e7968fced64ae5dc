"""A test of the tests: rules broken on purpose, one at a time, and each has to be caught by the walks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import Phase as Generation
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.domain import alphabet as a
from tests.domain.checks import check_edge, check_state
from tests.domain.liveness import dead_ends, live
from tests.domain.test_saga_stateful import SagaLife
from tests.domain.walk import Walk, explore

from saga_mcp.domain import draft, duties, machine, on_saga, on_step, rollback, saga_decisions
from saga_mcp.domain.draft import Draft
from saga_mcp.domain.errors import IllegalTransition
from saga_mcp.domain.events import AbortRequested, Event, StepEvent, StepFailed
from saga_mcp.domain.rollback import Readiness, in_scope, readiness, waits_for_calls
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.transition import put_step
from saga_mcp.domain.values import Phase, StepState

TWO = a.Alphabet(name="two steps", steps=2, plans=(a.PYTHON,), bindings=((a.CALL,),), late=False)
PIVOTAL = a.Alphabet(name="a pivot", steps=2, plans=(a.PLAIN, a.PIVOT), bindings=((a.CALL,),), late=False)
ALONE = a.Alphabet(name="a pivot alone", steps=1, plans=(a.PIVOT,), bindings=((),), late=False)
SEARCH = settings(
    max_examples=1000,
    stateful_step_count=30,
    deadline=None,
    phases=[Generation.generate],
    derandomize=True,
    database=None,
)

Plant = Callable[[pytest.MonkeyPatch], None]


def finds(alphabet: a.Alphabet, symptom: str) -> bool:
    """Whether the walk over events reports this violation."""
    walk = Walk(alphabet)
    for edge in explore(alphabet, walk):
        check_edge(walk, edge)
        check_state(walk, edge.after)
        if any(wrong.startswith(symptom) for wrong in walk.wrong):
            return True
        walk.wrong.clear()
    return False


def _due(saga: Saga) -> list[Step]:
    if saga.phase is not Phase.COMPENSATING or waits_for_calls(saga):
        return []
    return [saga.step(n) for n in saga.undo_stack if in_scope(saga, saga.step(n)) and not saga.step(n).settled]


def first_in_first_out(patch: pytest.MonkeyPatch) -> None:
    def frontier(saga: Saga) -> tuple[Step, Readiness] | None:
        return next(((step, readiness(step)) for step in _due(saga)), None)

    patch.setattr(rollback, "frontier", frontier)


def two_undos_at_once(patch: pytest.MonkeyPatch) -> None:
    def frontier(saga: Saga) -> tuple[Step, Readiness] | None:
        ready = [step for step in reversed(_due(saga)) if readiness(step) is Readiness.READY]
        return (ready[0], Readiness.READY) if ready else None

    patch.setattr(rollback, "frontier", frontier)


def commit_of_what_is_unsettled(patch: pytest.MonkeyPatch) -> None:
    def blocks_commit(_saga: Saga, _step: Step, *, accepted: tuple[int, ...] = ()) -> bool:
        del accepted
        return False

    for module in (on_saga, saga_decisions):
        patch.setattr(module, "blocks_commit", blocks_commit)


def abort_across_the_pivot(patch: pytest.MonkeyPatch) -> None:
    def abort(saga: Saga, event: AbortRequested) -> Saga:
        if saga.phase is not Phase.ACTIVE:
            return real(saga, event)
        return replace(real(replace(saga, pivot=0), event), pivot=saga.pivot)

    real = on_saga._abort  # pyright: ignore[reportPrivateUsage] - the rule that is broken on purpose
    patch.setattr(on_saga, "_abort", abort)


def doubt_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    def rollback_done(saga: Saga) -> bool:
        return saga.phase is Phase.COMPENSATING and all(
            step.settled or step.state is StepState.IN_DOUBT for step in saga.steps
        )

    for module in (on_saga, draft, duties):
        patch.setattr(module, "rollback_done", rollback_done)


def finish_before_the_end(patch: pytest.MonkeyPatch) -> None:
    def rollback_done(saga: Saga) -> bool:
        return saga.phase is Phase.COMPENSATING and not waits_for_calls(saga)

    for module in (on_saga, draft, duties):
        patch.setattr(module, "rollback_done", rollback_done)


def failed_after_an_unknown_attempt(patch: pytest.MonkeyPatch) -> None:
    def apply_step_event(saga: Saga, event: StepEvent) -> Saga:
        if isinstance(event, StepFailed) and (step := saga.find_step(event.step)) is not None:
            saga = put_step(saga, replace(step, unknown_attempts=0))
        return on_step.apply_step_event(saga, event)

    patch.setattr(machine, "apply_step_event", apply_step_event)


def blind_undo_after_the_deadline(patch: pytest.MonkeyPatch) -> None:
    def may_undo_blind(step: Step) -> bool:
        return step.plan.safe_if_absent and bool(step.parts)

    patch.setattr(Step, "may_undo_blind", property(may_undo_blind))


@pytest.mark.parametrize(
    ("plant", "alphabet", "symptom"),
    [
        (first_in_first_out, TWO, "not last in, first out"),
        (two_undos_at_once, TWO, "two undos at once"),
        (commit_of_what_is_unsettled, TWO, "committed with something unsettled"),
        (abort_across_the_pivot, PIVOTAL, "the rollback crosses a pivot"),
        (doubt_is_passed_over, TWO, "finished with something left"),
        (finish_before_the_end, TWO, "finished with something left"),
        (failed_after_an_unknown_attempt, TWO, "failed after an attempt of unknown outcome"),
        (blind_undo_after_the_deadline, TWO, "undone blindly"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_the_walk_catches_a_planted_fault(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, alphabet: a.Alphabet, symptom: str
) -> None:
    plant(monkeypatch)
    assert finds(alphabet, symptom)


@pytest.mark.parametrize(
    "plant",
    [first_in_first_out, doubt_is_passed_over, finish_before_the_end],
)
def test_the_world_shows_a_planted_fault(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, IllegalTransition)):
        run_state_machine_as_test(SagaLife, settings=SEARCH)


def test_the_walk_over_decisions_catches_a_wish_that_is_never_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deferred abort that nothing runs once the pivot has failed."""

    def close(draft: Draft, _driving: object) -> tuple[Event, ...]:
        return tuple(draft.events)

    monkeypatch.setattr(Draft, "close", close)
    life = live(ALONE)
    assert life.wrong or dead_ends(life)
