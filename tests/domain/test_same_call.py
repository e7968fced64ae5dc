"""When two calls are the same call (SEMANTICS.md S11.4; CASES C10), and that deciding on it costs next to nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saga_mcp.domain import step_events
from saga_mcp.domain.events import SagaOpened, StepIntended, StepPlan
from saga_mcp.domain.machine import fold
from saga_mcp.domain.repeats import KnownReplies, NewStep, OnRepeat, repeat_of
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, Kind
from saga_mcp.log.codec import decode, encode

ALIVE = KnownReplies(alive=lambda _: True)


def call(args: JsonObject, tool: str = "crm.create") -> StepPlan:
    return StepPlan(tool=tool, kind=Kind.COMPENSABLE, args=args)


@pytest.mark.case(10)
def test_the_order_of_keys_does_not_make_another_call() -> None:
    assert call({"a": 1, "b": {"c": [], "d": None}}).same_call(call({"b": {"d": None, "c": []}, "a": 1}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 2**63}, {"a": float(2**63)}),
        ({"a": "é"}, {"a": "e\u0301"}),
        ({"a": "\ud800"}, {"a": "\ufffd"}),
    ],
)
def test_another_value_makes_another_call(one: JsonObject, other: JsonObject) -> None:
    assert not call(one).same_call(call(other))


def test_another_tool_makes_another_call() -> None:
    assert not call({"a": 1}).same_call(call({"a": 1}, tool="crm.delete"))


def test_a_call_stored_before_there_were_digests_is_still_the_same_call() -> None:
    intent = StepIntended(step=1, plan=call({"name": "ada"}), owner="own-1")
    stored = encode(intent)
    assert stored.payload is not None
    old = stored._replace(payload='{"plan":{"args":{"name":"ada"}}}')
    back = decode(*old)
    assert isinstance(back, StepIntended)
    assert back.plan.same_call(intent.plan)


def test_the_digest_is_hidden_with_the_arguments() -> None:
    plan = call({"pin": "1234"})
    stored = encode(StepIntended(step=1, plan=plan, owner="own-1"))
    assert plan.args_digest not in stored.facts
    assert plan.args_digest in (stored.payload or "")


def test_a_decision_on_many_equal_tools_works_out_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions run while the database is locked for everybody (S10.1)."""
    intents = [StepIntended(step=n, plan=call({"text": str(n)}), owner="own-1") for n in range(1, 51)]
    saga = fold(Saga(id="sg-a"), [SagaOpened(realm="r", driver="own-1"), *intents])
    new = call({"text": "new"})

    def at_work(_: JsonObject) -> str:
        raise AssertionError

    monkeypatch.setattr(step_events, "_digest", at_work)
    assert repeat_of(saga, new, OnRepeat.RUN, ALIVE) == NewStep()
    assert repeat_of(saga, replace(new, step_key="k"), OnRepeat.RUN, ALIVE) == NewStep()
