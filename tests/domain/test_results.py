"""The last result of each tool, from the fold, against the words of S9.3; and what finding it costs (S2.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.checks import plainly_last

from saga_mcp.domain import events as e
from saga_mcp.domain.copying import replace
from saga_mcp.domain.machine import apply
from saga_mcp.domain.results import last_succeeded
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.transition import add_step, put_step
from saga_mcp.domain.values import Kind, OnError, OnUndoFailure, StepState

TOOLS = ["seat", "room", "car"]
BEFORE = {StepState.AWAITING_APPROVAL, StepState.INTENDED, StepState.CANCELLED}
"""States without an order key."""
OPEN = apply(
    Saga(id="sg-1"),
    e.SagaOpened(realm="r", driver="d", on_error=OnError.HOLD, on_undo_failure=OnUndoFailure.HALT),
)


def added(saga: Saga, tool: str) -> Saga:
    plan = e.StepPlan(tool=tool, kind=Kind.COMPENSABLE)
    step = Step(number=len(saga.steps) + 1, plan=plan, state=StepState.INTENDED, intent_seq=saga.next_seq)
    return add_step(saga, step)


def moved(saga: Saga, number: int, state: StepState) -> Saga:
    """The saga with a step in another state, whether or not any event leads there."""
    step = saga.step(number)
    order = step.order or (0 if state in BEFORE else saga.next_seq)
    return put_step(saga, replace(step, state=state, order=order))


CALLED = [*TOOLS[:2] * 3]
COME_TO = [StepState.INTENDED, StepState.IN_DOUBT, StepState.SUCCEEDED, StepState.COMPENSATED]
MOVES = st.tuples(st.integers(1, len(CALLED)), st.sampled_from(COME_TO))


@given(st.lists(MOVES, min_size=8, max_size=20))
def test_the_last_results_are_those_of_what_succeeded_and_is_not_undone(moves: list[tuple[int, StepState]]) -> None:
    saga = OPEN
    for tool in CALLED:
        saga = added(saga, tool)
    for number, state in moves:
        saga = moved(saga, number, state)
        for bound in range(saga.next_seq + 1):
            assert last_succeeded(saga, bound) == plainly_last(saga, bound)


def test_finding_them_costs_no_more_in_a_long_saga_than_in_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    step_of = Saga.step

    def counted(saga: Saga, number: int) -> Step:
        looked.append(number)
        return step_of(saga, number)

    def cost(saga: Saga) -> int:
        looked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Saga, "step", counted)
            last_succeeded(saga)
        return len(looked)

    saga, on_the_way = OPEN, list[int]()
    for number in range(1, 301):
        saga = added(saga, TOOLS[number % len(TOOLS)])
        saga = moved(saga, number, StepState.FAILED if number % 7 == 0 else StepState.SUCCEEDED)
        on_the_way.append(cost(saga))
    for number in range(300, 150, -1):
        saga = moved(saga, number, StepState.COMPENSATED)
        on_the_way.append(cost(saga))
    assert set(on_the_way[2:]) == {len(TOOLS)}
