"""Events as they are stored (SEMANTICS.md S10.3, S11.4, S14.4)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.golden import EVENT_TYPES, EVENTS, example

from saga_mcp.domain.events import PartSpec, StepFailed, StepIntended, StepPlan, StepSucceeded
from saga_mcp.domain.values import JsonValue, Kind, PartAction
from saga_mcp.log.codec import UnreadableEvent, decode, encode

GOLDEN: list[dict[str, Any]] = [json.loads(one) for one in EVENTS.read_text(encoding="utf-8").splitlines()]

_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("stored", GOLDEN, ids=lambda stored: str(stored["type"]))
def test_a_log_of_yesterday_is_read_by_the_code_of_today(stored: dict[str, Any]) -> None:
    payload = None if stored["payload"] is None else json.dumps(stored["payload"])
    event = decode(stored["type"], stored["version"], json.dumps(stored["facts"]), payload)
    again = encode(event)
    assert _holds_on_to(json.loads(again.facts), stored["facts"])
    assert _holds_on_to(json.loads(again.payload or "null"), stored["payload"])


def _holds_on_to(now: Any, then: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether everything that stood there stands there still; fields may have been added since."""
    if isinstance(then, dict):
        old = cast("dict[str, Any]", then)
        return all(name in now and _holds_on_to(now[name], value) for name, value in old.items())
    if isinstance(then, list):
        items = cast("Sequence[Any]", then)
        return len(now) == len(items) and all(map(_holds_on_to, now, items))
    return bool(now == then)


def test_every_event_type_has_a_golden_example() -> None:
    assert {stored["type"] for stored in GOLDEN} == {cls.__name__ for cls in EVENT_TYPES}


@pytest.mark.parametrize("cls", EVENT_TYPES)
def test_every_field_of_every_event_survives_storing(cls: type) -> None:
    event = example(cls)
    assert asdict(decode(*encode(event))) == asdict(event)


@given(_json)
def test_any_json_value_comes_back_as_it_was(value: JsonValue) -> None:
    back = decode(*encode(StepSucceeded(step=1, result=value)))
    assert isinstance(back, StepSucceeded)
    assert back.result == value
    assert str(back.result) == str(value)  # 1 and 1.0, 0.0 and -0.0 stay apart


def test_values_stand_in_the_payload_and_nowhere_else() -> None:
    plan = StepPlan(tool="crm.create", kind=Kind.COMPENSABLE, args={"name": "hunter2"})
    part = PartSpec(action=PartAction.MANUAL, message="hunter2", args={"x": "hunter2"})
    for event in (
        StepIntended(step=1, plan=plan, owner="own-1", capture="hunter2"),
        StepSucceeded(step=1, parts=(PartSpec(action=PartAction.CALL), part), result="hunter2"),
        StepFailed(step=1, error="hunter2"),
    ):
        stored = encode(event)
        assert "hunter2" not in stored.facts
        assert "hunter2" in (stored.payload or "")


def test_an_event_whose_payload_was_wiped_still_reads() -> None:
    plan = StepPlan(tool="crm.create", kind=Kind.COMPENSABLE, args={"name": "ada"})
    event = StepIntended(step=1, plan=plan, owner="own-1", capture={"found": True})
    back = decode(*encode(event)._replace(payload=None))
    assert back == event
    assert isinstance(back, StepIntended)
    assert (back.plan.args, back.capture) == ({}, None)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_without_a_word_in_json_becomes_null(number: float) -> None:
    result: JsonValue = {"rate": number, "rates": [number, 1.0]}
    stored = encode(StepSucceeded(step=1, result=result))
    assert json.loads(stored.payload or "")["result"] == {"rate": None, "rates": [None, 1.0]}


def test_a_value_that_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        encode(StepSucceeded(step=1, result={"raw": b"bytes"}))  # type: ignore[dict-item]  # the mistake under test


@pytest.mark.parametrize(
    ("type_name", "version", "facts", "payload"),
    [
        pytest.param("StepVanished", 1, "{}", None, id="unknown-type"),
        pytest.param("StepFailed", 2, '{"step":1}', None, id="unknown-version"),
        pytest.param("StepFailed", 1, '{"step":', None, id="cut-off"),
        pytest.param("StepFailed", 1, "[]", None, id="no-object"),
        pytest.param("StepFailed", 1, "{}", None, id="missing-field"),
        pytest.param("StepFailed", 1, '{"step":"1"}', None, id="text-for-a-number"),
        pytest.param("StepFailed", 1, '{"step":true}', None, id="true-for-a-number"),
        pytest.param("StepFailed", 1, '{"step":1,"colour":"red"}', None, id="unknown-field"),
        pytest.param("StepFailed", 1, '{"step":1}', "[]", id="payload-no-object"),
        pytest.param("StepFailed", 1, '{"step":1}', '{"error":NaN}', id="nan"),
        pytest.param("StepAttemptEnded", 1, '{"step":1,"effect":"maybe"}', None, id="unknown-word"),
        pytest.param("StepSucceeded", 1, '{"step":1,"parts":{}}', None, id="no-list-of-parts"),
        pytest.param("StepSucceeded", 1, '{"step":1,"parts":[{"action":"call"}]}', '{"parts":[null,null]}', id="parts"),
        pytest.param("SagaCommitted", 1, '{"by":"ada","accepted":1}', None, id="no-list-of-numbers"),
        pytest.param("StepIntended", 1, '{"step":1,"owner":"o","plan":null}', None, id="no-plan"),
    ],
)
def test_what_this_version_cannot_read_is_named(type_name: str, version: int, facts: str, payload: str | None) -> None:
    with pytest.raises(UnreadableEvent, match=type_name):
        decode(type_name, version, facts, payload)


def test_an_event_from_before_a_field_existed_reads_as_the_default() -> None:
    event = decode("SagaOpened", 1, '{"realm":"ops","driver":"own-1"}', None)
    assert json.loads(encode(event).facts)["implicit"] is False
