"""Strings are decoded only where a schema wants an object or array there, and no string."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saga_tools.server import decode_strings

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
    assert decode_strings(schema, sent) == got


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
    assert decode_strings(schema, sent) == sent


@given(st.text())
def test_text_for_a_text_parameter_is_never_touched(text: str) -> None:
    assert decode_strings({"properties": {"note": {"type": "string"}}}, {"note": text}) == {"note": text}
