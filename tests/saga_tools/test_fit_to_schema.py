"""Values that hosts write in another form are decoded only where a schema admits nothing else there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_tools.server import fit_to_schema

ARRAY: dict[str, Any] = {"type": "array", "items": {"type": "object"}}


@pytest.mark.parametrize(
    ("schema", "sent", "got"),
    [
        pytest.param({"type": "array"}, "[1, 2]", [1, 2], id="array"),
        pytest.param({"type": "object"}, '{"a": 1}', {"a": 1}, id="object"),
        pytest.param({"type": ["object", "null"]}, '{"a": 1}', {"a": 1}, id="type-list"),
        pytest.param({"anyOf": [{"type": "array"}, {"type": "null"}]}, "[1]", [1], id="optional"),
        pytest.param({"allOf": [{"type": "array"}]}, "[1]", [1], id="all-of"),
        pytest.param({"oneOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "array"}}}, "[1]", [1], id="reference"),
        pytest.param({"type": "array"}, f"[{2**70}]", [2**70], id="large-integers"),
        pytest.param(ARRAY, '["{\\"a\\": 1}"]', [{"a": 1}], id="text-inside-text"),
        pytest.param({"prefixItems": [{"type": "array"}], "items": {"type": "string"}}, ["[1]", "[1]"], [[1], "[1]"]),
        pytest.param({"additionalProperties": {"type": "array"}}, {"x": "[1]"}, {"x": [1]}, id="additional-properties"),
        pytest.param({"properties": {"x": ARRAY}}, {"x": "[]", "y": "[]"}, {"x": [], "y": "[]"}, id="properties"),
        pytest.param(
            {"anyOf": [ARRAY, {"type": "null"}]}, ['{"a": 1}'], [{"a": 1}], id="inside-the-only-branch-that-fits"
        ),
        pytest.param({"enum": [[1], [2]]}, "[1]", [1], id="enum"),
        pytest.param({"const": {"a": 1}}, '{"a": 1}', {"a": 1}, id="const"),
    ],
)
def test_text_is_decoded_where_only_an_object_or_array_may_be(
    schema: dict[str, Any], sent: object, got: object
) -> None:
    assert fit_to_schema(schema, sent) == got


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        pytest.param({"type": "string"}, "[1]", id="string"),
        pytest.param({"type": ["string", "array"]}, "[1]", id="string-or-array"),
        pytest.param({"anyOf": [{"type": "array"}, {"type": "string"}]}, "[1]", id="any-of-string"),
        pytest.param({}, "[1]", id="anything"),
        pytest.param({"type": ["string", "null"]}, "null", id="the-word-null"),
        pytest.param({"type": "integer"}, "1", id="number"),
        pytest.param({"type": "boolean"}, "true", id="boolean"),
        pytest.param({"type": "array"}, '{"a": 1}', id="object-where-array"),
        pytest.param({"type": "object"}, "[1]", id="array-where-object"),
        pytest.param({"type": "object"}, "not json", id="no-json"),
        pytest.param({"type": "array"}, "[" * 100_000, id="too-deep"),
        pytest.param({"type": "array"}, "", id="empty"),
        pytest.param({"$ref": "#/$defs/none"}, "[1]", id="reference-to-nothing"),
        pytest.param({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "[1]", id="reference-in-a-circle"),
        pytest.param({"anyOf": [ARRAY, {"type": "array"}]}, ["{}"], id="two-branches-fit"),
        pytest.param({"anyOf": [True, {"type": "array"}]}, "[1]", id="a-branch-that-admits-anything"),
        pytest.param({"properties": {"x": True}}, {"x": "[1]"}, id="boolean-schema"),
    ],
)
def test_everything_else_is_left_as_it_is(schema: dict[str, Any], sent: object) -> None:
    assert fit_to_schema(schema, sent) == sent


@pytest.mark.parametrize(
    "schema", [{"type": "integer"}, {"type": ["integer", "string"]}, {"enum": [1, 5]}, {"const": 5}]
)
def test_a_whole_number_with_a_fraction_is_an_integer_where_only_that_may_be(schema: dict[str, Any]) -> None:
    """JSON Schema admits `5.0` as an integer, and hosts that keep all numbers as doubles write it so."""
    fitted = fit_to_schema({"properties": {"x": schema}}, {"x": 5.0})
    assert repr(fitted) == "{'x': 5}"


@pytest.mark.parametrize(
    ("schema", "number"),
    [
        ({"type": "number"}, 5.0),
        ({"type": ["integer", "number"]}, 5.0),
        ({}, 5.0),
        ({"type": "string"}, 5.0),
        ({"type": "boolean"}, 1.0),
        ({"type": "integer"}, 5.5),
        ({"type": "integer"}, 2.0**53),
        ({"type": "integer"}, float("inf")),
    ],
)
def test_every_other_number_is_left_as_it_is(schema: dict[str, Any], number: float) -> None:
    assert repr(fit_to_schema(schema, number)) == repr(number)


@given(st.text())
def test_text_for_a_text_parameter_is_never_touched(text: str) -> None:
    assert fit_to_schema({"properties": {"note": {"type": "string"}}}, {"note": text}) == {"note": text}
