"""Results: advertised as they are where they are objects, wrapped where not, and never lost for how they look."""

import json
from collections import UserDict
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validate
from pydantic import AfterValidator, BaseModel, field_serializer
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from saga_tools import ToolRegistry
from saga_tools.server import InvalidResult, RegisteredTool, jsonable, registered


class Charge(BaseModel):
    id: str
    on: date
    fee: Decimal = Decimal("0.10")


@dataclass
class Seat:
    row: int


@dataclass
class File:
    name: str


class Totals(TypedDict):
    cents: int


class Node(BaseModel):
    children: list["Node"] = []


class Unwilling(BaseModel):
    id: str = "u1"

    @field_serializer("id")
    def refuse(self, _: str) -> str:
        raise RuntimeError("no")


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Level(IntEnum):
    HIGH = 3


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def returning(annotation: object) -> RegisteredTool:
    def give() -> object: ...

    give.__annotations__["return"] = annotation
    registry = ToolRegistry()
    registry.tool(kind="pivot")(give)
    return registered(registry).tools["give"]


@pytest.mark.parametrize("annotation", [Charge, Seat, Totals, Node, dict[str, int], dict])
def test_an_object_is_advertised_as_it_is(annotation: object) -> None:
    tool = returning(annotation)
    assert not tool.wraps_result
    assert tool.output_schema is not None
    assert tool.output_schema["type"] == "object"
    Draft202012Validator.check_schema(dict(tool.output_schema))


@pytest.mark.parametrize("annotation", [int, str, list[Charge], Charge | None, Charge | Seat, None, Any])
def test_anything_else_is_advertised_as_the_property_result(annotation: object) -> None:
    tool = returning(annotation)
    assert tool.wraps_result
    assert tool.output_schema is not None
    assert (tool.output_schema["type"], tool.output_schema["required"]) == ("object", ["result"])
    Draft202012Validator.check_schema(dict(tool.output_schema))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Charge, Charge(id="c1", on=date(2026, 1, 2))),
        (Seat, Seat(3)),
        (Totals, {"cents": 2**70}),
        (list[Charge], [Charge(id="c1", on=date(2026, 1, 2))]),
        (Charge | None, None),
        (Charge | Seat, Seat(4)),
        (None, None),
        (Decimal, Decimal("10.10")),
        (bytes, b"\xff\x00"),
        (set[int], {1, 2}),
        (Node, Node(children=[Node()])),
    ],
)
def test_a_result_fits_its_schema_and_reads_back_as_it_was(annotation: object, value: object) -> None:
    tool = returning(annotation)
    encoded = tool.encode_result(value).json
    assert tool.output_schema is not None
    validate(tool.result.structured(encoded), dict(tool.output_schema))
    assert tool.decode_result(json.loads(json.dumps(encoded))) == value


def test_without_a_return_annotation_there_is_no_schema_and_objects_are_not_wrapped() -> None:
    registry = ToolRegistry()

    @registry.tool(kind="pivot")
    def give():  # type: ignore[no-untyped-def]  # noqa: ANN202  # the point
        return None

    tool = registered(registry).tools["give"]
    assert (tool.output_schema, tool.wraps_result) == (None, False)
    assert tool.result.structured({"id": 1}) == {"id": 1}
    assert tool.result.structured([1]) == {"result": [1]}
    assert tool.decode_result({"id": 1}) == {"id": 1}


def test_a_result_that_breaks_its_annotation_is_still_shown() -> None:
    """A sloppy result says nothing about whether money moved; only reading it back as its type is refused."""
    tool = returning(Charge)
    encoded = tool.encode_result({"id": 7, "extra": [date(2026, 1, 2)]}).json
    assert encoded == {"id": 7, "extra": ["2026-01-02"]}
    with pytest.raises(InvalidResult, match="does not fit today's return type at id, on"):
        tool.decode_result(encoded)


def test_a_types_own_code_may_raise_anything() -> None:
    def fail(value: int) -> int:
        raise KeyError(value)

    tool = returning(Annotated[int, AfterValidator(fail)])
    with pytest.raises(InvalidResult, match="cannot be read: KeyError"):
        tool.decode_result(tool.encode_result(3).json)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), None),
        ([float("inf"), 1.5], [None, 1.5]),
        ({"a": {float("nan")}}, {"a": [None]}),
        ("ok \ud83d\ude00", "ok \N{GRINNING FACE}"),
        ("lone \ud800!", "lone \ud800!"),
        ({"\udc00": 1, 2: 3, None: 4}, {"\udc00": 1, "2": 3, "null": 4}),
        ((1, {2}), [1, [2]]),
        (b"\xff", "_w=="),
        (Level.HIGH, 3),
        (UserDict({"a": 1}), ANY),
        (Unwilling(), "Unwilling(id='u1')"),
        ([Unshowable(), 1], ["<Unshowable>", 1]),
        pytest.param(10**5000, hex(10**5000), id="more-digits-than-python-writes"),
        (ValueError("x"), "ValueError('x')"),
    ],
)
def test_what_json_cannot_carry_is_given_a_form(value: object, shown: object) -> None:
    assert json.loads(json.dumps(jsonable(value), allow_nan=False)) == shown


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Any, float("nan")),
        (float, float("nan")),
        (dict[str, float], {"a": float("-inf")}),
        (Any, nested(70)),
        (int, 10**5000),
        (Any, {"lock": object()}),
        (Charge, object()),
        (Any, {1: 2, "1": 3}),
        (dict[Any, Any], {"in": [{None: 1, "null": 2}]}),
        (str, "ok \ud83d\ude00"),
    ],
    ids=[f"{place}" for place in range(10)],
)
def test_a_result_that_json_cannot_hold_is_known_not_to_be_exact(annotation: object, value: object) -> None:
    assert not returning(annotation).encode_result(value).exact


@pytest.mark.parametrize(
    "value",
    [(1, 2), {"on": date(2026, 1, 2)}, [Charge(id="c1", on=date(2026, 1, 2))], Seat(3), {1: 2}, b"\xff", Level.HIGH],
)
def test_what_a_result_without_a_type_comes_to_in_json_is_exact(value: object) -> None:
    """An author sees a list for a tuple and text for a date; nothing of them is lost."""
    assert returning(Any).encode_result(value).exact


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "odd\udcff1"),
        (Any, "odd\udcff1"),
        (list[str], ["odd\udcff1"]),
        (dict[str, Any], {"odd\udcff1": {"name": "\ud800"}}),
        (File, File(name="odd\udcff1")),
        (Charge, Charge(id="c1\udcff", on=date(2026, 1, 2))),
        (Any, {"n": 2**70, "f": 1.5, "none": None}),
        (dict[int, int], {1: 2}),
        (Decimal, Decimal("10.10")),
        (bytes, b"\xff"),
    ],
    ids=[f"{place}" for place in range(10)],
)
def test_what_json_text_can_hold_is_kept_exactly(annotation: object, value: object) -> None:
    tool = returning(annotation)
    encoded = tool.encode_result(value)
    assert encoded.exact
    assert tool.decode_result(json.loads(json.dumps(encoded.json))) == value


def test_a_value_that_contains_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    json.dumps(jsonable(loop))
    mapping: dict[str, object] = {}
    mapping["self"] = mapping
    json.dumps(returning(dict[str, object]).encode_result(mapping).json)


@given(st.recursive(st.floats() | st.text() | st.binary() | st.dates() | st.none(), st.lists, max_leaves=5))
def test_every_value_becomes_json_whatever_the_annotation_says(value: object) -> None:
    for annotation in (Charge, int, object):
        json.dumps(returning(annotation).encode_result(value).json, allow_nan=False)
