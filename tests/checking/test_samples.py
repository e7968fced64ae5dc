"""Samples fit the schema that they are made of, and paths are looked up as values would be."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema_rs import validator_for

from saga_mcp.cli.checking.samples import Size, samples_of
from saga_mcp.cli.checking.schemas import Absent, Found, Unknown, look_up, plain, says_all

TREE: dict[str, Any] = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name"],
        }
    },
}
SCHEMAS: list[dict[str, Any]] = [
    TREE,
    {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"enum": [1, 2, 3]}}},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}, "minItems": 2}}},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 9, "maxLength": 12}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "number", "exclusiveMinimum": 0, "maximum": 5}}},
    {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 7, "minimum": 10}}},
    {"anyOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "null"}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}}, {"required": ["a"]}]},
    {"type": "object", "additionalProperties": {"type": "string", "format": "date"}},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_sample_fits_and_there_is_a_full_one(schema: dict[str, Any]) -> None:
    samples = samples_of(plain(schema))
    assert samples[0].size is Size.FULL
    for sample in samples:
        validator_for(schema).validate(sample.value)


def test_there_is_a_sample_of_each_choice() -> None:
    samples = samples_of({"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}}})
    full = [sample.value for sample in samples if sample.size is Size.FULL]
    assert full == [{"a": "x", "b": True}, {"a": "y", "b": True}, {"a": "x", "b": False}]


def test_what_cannot_be_made_to_fit_has_no_samples() -> None:
    assert samples_of({"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"}) == ()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (["name"], Found(({"type": "string"},))),
        (["children", 0, "name"], Unknown()),  # a circle: nothing is said beyond its first round
        (["nmae"], Absent(0, ("name", "children"))),
        (["name", "first"], Absent(1, ())),
    ],
)
def test_a_path_leads_to_what_the_schema_says(path: list[str | int], found: object) -> None:
    assert look_up(plain(TREE), path) == found


def test_a_member_of_one_alternative_is_there_and_of_none_is_not() -> None:
    either: dict[str, Any] = {
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"type": "object", "properties": {"b": {"type": "integer"}}},
        ]
    }
    assert isinstance(look_up(either, ["a"]), Found)
    assert look_up(either, ["c"]) == Absent(0, ("a", "b"))
    assert says_all(either)


def test_open_objects_say_nothing_of_other_members() -> None:
    assert isinstance(look_up({"type": "object"}, ["a"]), Unknown)
    assert isinstance(look_up({"type": "object", "additionalProperties": {"type": "string"}}, ["a"]), Unknown)
