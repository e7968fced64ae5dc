"""Conditions come to true or false, or to nothing (S11.3)."""

from __future__ import annotations

import pytest

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding import CannotBind, TemplateError, compile_condition

NAMES = frozenset({"args", "result", "text", "now", "results", "capture"})


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    [
        (True, {}, True),
        (False, {}, False),
        ("${args.amount > 1000.0}", {"args": {"amount": 1000.5}}, True),
        ("${args.amount > 1000.0}", {"args": {"amount": 7}}, False),
        ("${args.method == 'create'}", {"args": {"method": "update"}}, False),
        ("${has(result.failures) && size(result.failures) > 0}", {"result": {}}, False),
        ("${text.startsWith('Database error') || text.startsWith('Error:')}", {"text": "Error: x"}, True),
        ("${!now.text.contains('\ufffd')}", {"now": {"text": "fine"}}, True),
        ("${!has(results.balance) || results.balance.amount >= 0}", {"results": {"balance": {"amount": -1}}}, False),
        ("${capture.found}", {"capture": {"found": True}}, True),
    ],
)
def test_a_condition_holds_or_not(condition: str | bool, values: dict[str, JsonValue], holds: bool) -> None:  # noqa: FBT001 - a case table
    assert compile_condition(condition, variables=NAMES).holds(values) is holds


@pytest.mark.parametrize("value", [1, 0, "true", "", None, [], {}])
def test_only_a_boolean_is_one(value: JsonValue) -> None:
    with pytest.raises(CannotBind, match="true or false"):
        compile_condition("${args.x}", variables=NAMES).holds({"args": {"x": value}})


def test_a_condition_that_fails_is_never_true() -> None:
    with pytest.raises(CannotBind):
        compile_condition("${args.x == 1}", variables=NAMES).holds({"args": {}})


@pytest.mark.parametrize("condition", ["args.x > 1", "", "true", "not ${args.x}", "${args.x}${args.x}"])
def test_a_condition_is_exactly_one_expression(condition: str) -> None:
    with pytest.raises(TemplateError, match="exactly one"):
        compile_condition(condition, variables=NAMES)


def test_the_problems_of_a_condition_are_those_of_its_expression() -> None:
    with pytest.raises(TemplateError, match="did you mean args"):
        compile_condition("${arg.x}", variables=NAMES)


def test_a_condition_tells_what_it_needs() -> None:
    condition = compile_condition("${result.a.b == args.x}", variables=NAMES)
    assert condition.names == {"result", "args"}
    assert condition.paths == (("result", "a", "b"), ("args", "x"))


@pytest.mark.parametrize("value", [True, False, None])
def test_a_verdict_may_be_that_it_cannot_tell(value: bool | None) -> None:  # noqa: FBT001 - a case table
    assert compile_condition("${args.x}", variables=NAMES).verdict({"args": {"x": value}}) is value


@pytest.mark.parametrize("value", [1, "null", ""])
def test_a_verdict_is_nothing_else(value: JsonValue) -> None:
    with pytest.raises(CannotBind, match="true or false"):
        compile_condition("${args.x}", variables=NAMES).verdict({"args": {"x": value}})
