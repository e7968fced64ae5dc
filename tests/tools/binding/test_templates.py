"""Templates: shapes, types, plain paths, and all problems at once (DESIGN.md 5.1)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding import CannotBind, TemplateError, compile_template

UNTIMED = settings(deadline=None)  # a busy machine is no failure
NAMES = frozenset({"args", "result", "text", "capture", "read", "step", "item", "now"})

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


def bind(template: JsonValue, **values: JsonValue) -> JsonValue:
    return compile_template(template, variables=NAMES).bind(values)


def reason(template: JsonValue, **values: JsonValue) -> str:
    with pytest.raises(CannotBind) as refused:
        bind(template, **values)
    return refused.value.reason


def problems(template: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - TOML holds more than JSON does
    with pytest.raises(TemplateError) as refused:
        compile_template(template, variables=NAMES)
    return [(problem.path, str(problem)) for problem in refused.value.problems]


@UNTIMED
@given(JSON)
def test_any_json_value_goes_through_a_plain_path_unchanged(value: JsonValue) -> None:
    bound = bind({"a": ["${args.x}"]}, args={"x": value})
    assert bound == {"a": [value]}
    # 1, 1.0 and true are equal in Python, and must not become each other.
    assert repr(bound) == repr({"a": [value]})


@UNTIMED
@given(JSON)
def test_a_value_without_expressions_binds_to_itself(value: JsonValue) -> None:
    value = with_plain_keys(value)
    assert repr(bind(escape(value))) == repr(value)


def with_plain_keys(value: JsonValue) -> JsonValue:
    """The value with keys that start no expression: those are refused, not escaped."""
    if isinstance(value, list):
        return [with_plain_keys(item) for item in value]
    if isinstance(value, dict):
        return {key.replace("${", "{"): with_plain_keys(item) for key, item in value.items()}
    return value


def escape(value: JsonValue) -> JsonValue:
    """Double what would start an expression."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [escape(item) for item in value]
    if isinstance(value, dict):
        return {key: escape(item) for key, item in value.items()}
    return value


@UNTIMED
@given(st.text(st.characters(codec="utf-8")), st.integers(-(2**63), 2**63 - 1))
def test_what_the_engine_hands_back_is_what_it_was_given(text: str, number: int) -> None:
    value: JsonValue = {"t": text, "n": [number, True, None, 1.0]}
    assert repr(bind("${true ? args : {}}", args=value)) == repr({"n": [number, True, None, 1.0], "t": text})


@pytest.mark.parametrize(
    ("template", "values", "bound"),
    [
        ("${result.data[0].id}", {"result": {"data": [{"id": 5}]}}, 5),
        ("${args['a b']['c']}", {"args": {"a b": {"c": 1}}}, 1),
        ("${args}", {"args": {"b": 1, "a": 2}}, {"b": 1, "a": 2}),
        ("${args.path}.undone-${step.key}", {"args": {"path": "/a"}, "step": {"key": "k"}}, "/a.undone-k"),
        ("${int(regex(result.url, '/issues/([0-9]+)$'))}", {"result": {"url": "http://h/issues/12"}}, 12),
        ("${json(regex(text, '(?s)<data>(.*)</data>'))}", {"text": '<data>{"a":\n[1]}</data>'}, {"a": [1]}),
        (
            "${read.result.transitions.filter(t, t.to == capture.result.status)[0].id}",
            {"read": {"result": {"transitions": [{"to": "x", "id": "7"}]}}, "capture": {"result": {"status": "x"}}},
            "7",
        ),
        ("${args.l.map(item, item.id)}", {"args": {"l": [{"id": 1}]}}, [1]),
        ("${has(args.a) ? args.a : 'none'}", {"args": {}}, "none"),
        ("is ${args.v}", {"args": {"v": {"b": [1, None, True, 1.5, "é"]}}}, 'is {"b":[1,null,true,1.5,"é"]}'),
        ("${args.a + 1.0}", {"args": {"a": 1.0}}, 2.0),
        ("${18446744073709551615u}", {}, 2**64 - 1),
        ("${{'b': 1, 'a': {'d': 1, 'c': 2}}} in text", {}, '{"a":{"c":2,"d":1},"b":1} in text'),
    ],
)
def test_an_expression_binds(template: str, values: Mapping[str, JsonValue], bound: JsonValue) -> None:
    assert repr(bind(template, **values)) == repr(bound)


def test_an_integer_of_any_size_survives_a_plain_path_and_longer_text() -> None:
    assert bind(["${args.n}", "n=${args.n}"], args={"n": 2**64 + 1}) == [2**64 + 1, f"n={2**64 + 1}"]


@pytest.mark.parametrize("expression", ["args.n + 1", "args.n == 1", "args.l.map(x, x)", "string(args)", "[args.n][0]"])
def test_an_integer_outside_64_bits_is_never_computed_with(expression: str) -> None:
    """Measured: the engine would make a double of it."""
    says = reason(f"${{{expression}}}", args={"n": 2**63, "l": [2**63]})
    assert "outside 64 bits" in says


def test_a_large_integer_elsewhere_does_no_harm() -> None:
    assert bind("${args.n + 1}", args={"n": 1, "other": 2**70}) == 2


def test_integer_overflow_is_refused() -> None:
    assert "64 bits" in reason("${args.n + 1}", args={"n": 2**63 - 1})


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("result.lead_id", "result.lead_id is missing"),
        ("result.lead_id + 1", "result.lead_id is missing"),
        ("has(result.lead_id.x)", "result.lead_id is missing"),
        ("result.data[3]", "result.data[3] is beyond the end of the list"),
        ("result.data[3] + 1", "an index is beyond the end of a list"),
        ("result.none.x", "result.none is null, not an object"),
        ("result.none.x + 1", "result.none is null, not an object"),
        ("result.data.x", "result.data is a list, not an object"),
        ("result[0]", "result is an object, not a list"),
        ("args.x", "args is not known here"),
        ("args.x + 1", "args is not known here"),
        ("true || args.x", "args is not known here"),
        ("{}[result.text]", "a member is missing"),
        ("1 / 0", "division by zero"),
        ("1.0 / 0.0", "NaN or infinite"),
        ("result.nan", "NaN"),
        ("[result.nan]", "NaN"),
        ("result.text + 1", "types of its operands"),
        ("size(1)", "types of its arguments"),
        ("b'x'", "type bytes"),
        ("timestamp('2026-01-01T00:00:00Z')", "type timestamp"),
        ("duration('1s')", "type duration"),
        ("result.data.first()", "optional"),
        ("{1: 2}", "keys that are not strings"),
        ("has(result.a) ? 1 : 1 + ''", "types of its operands"),
        ("result.half + 'x'", "not valid Unicode"),
    ],
)
def test_what_has_no_value_cannot_be_bound_and_says_why(expression: str, says: str) -> None:
    result: JsonValue = {"data": [1], "none": None, "text": "secret-text", "nan": float("nan"), "half": "\ud800"}
    assert says in reason(f"${{{expression}}}", result=result)


def test_a_failure_names_its_place_and_expression() -> None:
    template = compile_template({"a": [{"b c": "x ${args.y} z"}]}, variables=NAMES)
    with pytest.raises(CannotBind) as refused:
        template.bind({"args": {}})
    assert (refused.value.path, refused.value.expression) == (".a[0]['b c']", "args.y")


def test_an_integer_too_long_to_write_out_cannot_stand_in_text() -> None:
    assert bind("${args.n}", args={"n": 10**5000}) == 10**5000
    assert "too many digits" in reason("n=${args.n}", args={"n": 10**5000})


def test_all_problems_come_at_once_with_their_places() -> None:
    value: JsonValue = {
        "when": "${text.startWith('E') || argz.x}",
        "each": ["${result.l.map(x, x.l.filter(y, y))}", "fine"],
        "bad": "${args.}",
        "k ${x}": 1,
    }
    assert problems(value) == [
        (".when", "unknown method startWith; did you mean startsWith?"),
        (".when", "unknown variable argz; did you mean args?"),
        (".each[0]", "filter stands inside another comprehension; they do not nest"),
        (".bad", "not CEL: Syntax error: no viable alternative at input '.'"),
        ("['k ${x}']", "a key cannot hold ${...}"),
    ]


def test_a_problem_knows_its_position() -> None:
    with pytest.raises(TemplateError) as refused:
        compile_template("x ${args.a.startWith('b')}", variables=NAMES)
    (problem,) = refused.value.problems
    assert problem.text[problem.fault.position :].startswith("startWith")
    assert problem.fault.suggestion == "startsWith"


@pytest.mark.parametrize("value", [dt.date(2026, 1, 1), float("nan"), float("inf")])
def test_what_toml_has_and_json_has_not_is_a_problem(value: object) -> None:
    ((path, says),) = problems({"a": value})
    assert path == ".a"
    assert "not a JSON value" in says


def test_a_template_tells_what_it_needs() -> None:
    template = compile_template(
        {
            "a": "${result.data[0].id} ${args['x y']}",
            "b": "${has(result.s) && result.t.contains('q') && result.l.map(item, item.z) == [] && args[text]}",
        },
        variables=NAMES,
    )
    assert template.names == {"result", "args", "text"}
    assert template.paths == (
        ("result", "data", 0, "id"),
        ("args", "x y"),
        ("result", "s"),
        ("result", "t"),
        ("result", "l"),
        ("args",),
        ("text",),
    )
    assert compile_template({"a": ["x", 1]}, variables=NAMES).names == frozenset()


def test_two_bindings_share_nothing_that_was_written_in_the_config() -> None:
    template = compile_template({"a": [1]}, variables=NAMES)
    first = cast("dict[str, list[int]]", template.bind({}))
    first["a"].append(2)
    assert template.bind({}) == {"a": [1]}
