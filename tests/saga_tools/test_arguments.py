"""Arguments are decoded once, strictly, and what is stored is exactly what the tool and its undo get."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validate
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from saga_tools import InvalidArguments, ToolRegistry
from saga_tools.server import RegisteredTool, registered


class Cabin(Enum):
    ECONOMY = "economy"
    FIRST = "first"


class Leg(BaseModel):
    to: str
    on: date


@dataclass
class Passenger:
    name: str
    age: int | None = None


class Extras(TypedDict):
    bags: int


def tool_of(function: Callable[..., object]) -> RegisteredTool:
    registry = ToolRegistry()
    registry.tool(name="tool", kind="pivot")(function)
    return registered(registry).tools["tool"]


def book(  # noqa: PLR0913, PLR0917  # one of each kind
    legs: list[Leg],
    passenger: Passenger,
    cents: Annotated[int, Field(ge=0, description="Price in cents")],
    cabin: Cabin = Cabin.ECONOMY,
    extras: Extras | None = None,
    fee: Decimal = Decimal("1.50"),
    ratio: float = 1,
    ticket: bytes = b"\xff\xfe",
    way: Literal["out", "return"] | int = "out",
    *,
    keep: bool = False,
) -> None:
    """Book a flight."""


BOOKED: dict[str, Any] = {
    "legs": [{"to": "LIS", "on": "2026-12-01"}],
    "passenger": {"name": "Ada"},
    "cents": 12_300,
}


def problems(tool: RegisteredTool, arguments: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidArguments) as refused:
        tool.decode(arguments)
    return [str(problem) for problem in refused.value.problems]


def test_the_schema_is_valid_and_refuses_unknown_arguments() -> None:
    schema = tool_of(book).input_schema
    Draft202012Validator.check_schema(dict(schema))
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["legs", "passenger", "cents"]
    assert schema["properties"]["cents"] == {
        "type": "integer",
        "minimum": 0,
        "title": "Cents",
        "description": "Price in cents",
    }
    assert schema["properties"]["fee"]["default"] == "1.50"
    validate(BOOKED, dict(schema))


def test_a_call_is_decoded_to_the_types_of_the_parameters() -> None:
    kwargs = tool_of(book).decode(BOOKED | {"cabin": "first", "extras": {"bags": 2}, "fee": 3, "way": 7}).kwargs
    assert kwargs == {
        "legs": [Leg(to="LIS", on=date(2026, 12, 1))],
        "passenger": Passenger("Ada"),
        "cents": 12_300,
        "cabin": Cabin.FIRST,
        "extras": {"bags": 2},
        "fee": Decimal(3),
        "ratio": 1.0,
        "ticket": b"\xff\xfe",
        "way": 7,
        "keep": False,
    }


def test_what_is_stored_has_the_defaults_in_it_and_decodes_to_the_same_values() -> None:
    tool = tool_of(book)
    decoded = tool.decode(BOOKED)
    assert decoded.json["cabin"] == "economy"
    assert decoded.json["fee"] == "1.50"
    assert tool.kwargs_from_json(decoded.json) == decoded.kwargs
    assert tool.decode(decoded.json) == decoded


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, -(2**63) - 1, 2**70])
def test_integers_keep_all_their_digits(number: int) -> None:
    def pay(cents: int, anything: object) -> None: ...

    decoded = tool_of(pay).decode({"cents": number, "anything": [number]})
    assert (decoded.kwargs["cents"], decoded.json["cents"]) == (number, number)
    assert (decoded.kwargs["anything"], decoded.json["anything"]) == ([number], [number])


@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    [
        (float, 1, 1.0),
        (date, "2026-01-31", date(2026, 1, 31)),
        (datetime, "2026-01-31T10:00:00Z", datetime(2026, 1, 31, 10, tzinfo=timezone.utc)),  # noqa: UP017  # read alike
        (timedelta, "PT1H", timedelta(hours=1)),
        (Decimal, "10.10", Decimal("10.10")),
        (Decimal, 10.1, Decimal("10.1")),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (int | str, "1", "1"),
        (int | None, None, None),
    ],
)
def test_json_forms_of_python_types_are_read_and_stored(annotation: object, sent: object, got: object) -> None:
    def take(value: object) -> None: ...

    take.__annotations__["value"] = annotation
    tool = tool_of(take)
    decoded = tool.decode({"value": sent})
    assert decoded.kwargs == {"value": got}
    assert tool.kwargs_from_json(decoded.json) == {"value": got}


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (int, "1"),
        (int, 1.5),
        (int, True),
        (float, "1.0"),
        (float, float("nan")),
        (float, float("inf")),
        (object, [float("-inf")]),
        (bool, 1),
        (bool, "true"),
        (str, 1),
        (str, "\ud800"),
        (date, "31.01.2026"),
        (date, 1_700_000_000),
        (Cabin, "business"),
        (int, None),
        pytest.param(int, 10**5000, id="more-digits-than-python-writes"),
        (object, object()),
        (object, {1, 2}),
    ],
)
def test_what_is_no_json_of_the_type_is_refused(annotation: object, sent: object) -> None:
    def take(value: object) -> None: ...

    take.__annotations__["value"] = annotation
    assert len(problems(tool_of(take), {"value": sent})) == 1


def test_every_problem_is_listed_with_its_path_and_without_the_value() -> None:
    said = problems(
        tool_of(book),
        {"legs": [{"to": 4, "on": "2026-12-01"}, {}], "passenger": {"name": "s3cret", "age": "s3cret"}, "cent": 1},
    )
    assert said == [
        "legs[0].to: input should be a valid string",
        "legs[1].to: is required",
        "legs[1].on: is required",
        "passenger.age: input should be a valid integer",
        "cents: is required",
        "cent: is not an argument, did you mean `cents`?",
    ]


def test_an_object_sent_as_text_is_decoded_before_it_is_stored() -> None:
    decoded = tool_of(book).decode(BOOKED | {"legs": '[{"to": "LIS", "on": "2026-12-01"}]', "extras": '{"bags": 1}'})
    assert decoded.kwargs["legs"] == [Leg(to="LIS", on=date(2026, 12, 1))]
    assert decoded.json["extras"] == {"bags": 1}


def test_parameters_may_have_the_names_of_pydantics_own_attributes() -> None:
    def save(copy: int, json: str, model_config: str, schema: int = 3, _private: int = 4) -> None: ...

    tool = tool_of(save)
    sent = {"copy": 1, "json": "{}", "model_config": "x", "_private": 5}
    assert tool.decode(sent).kwargs == sent | {"schema": 3}
    assert list(tool.input_schema["properties"]) == ["copy", "json", "model_config", "schema", "_private"]


def test_a_tool_without_parameters_takes_none() -> None:
    def ping() -> None: ...

    tool = tool_of(ping)
    assert tool.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool.decode({}).json == {}
    assert problems(tool, {"x": 1}) == ["x: is not an argument"]


def test_a_parameter_without_annotation_takes_any_json() -> None:
    def take(value: object) -> None: ...

    del take.__annotations__["value"]
    assert tool_of(take).decode({"value": {"a": [None]}}).kwargs == {"value": {"a": [None]}}


def test_mutable_defaults_are_not_shared_between_calls() -> None:
    def tag(tags: list[str] = []) -> None: ...  # noqa: B006  # the point

    tool = tool_of(tag)
    tool.decode({}).kwargs["tags"].append("mine")
    assert tool.decode({}).kwargs == {"tags": []}


def test_python_values_for_an_undo_part_are_stored_and_read_back() -> None:
    registry = ToolRegistry()

    @registry.part
    def release(leg: Leg, cents: int) -> None: ...

    arguments = registered(registry).callables["release"].arguments
    stored = arguments.encode({"leg": Leg(to="LIS", on=date(2026, 12, 1)), "cents": 2**70})
    assert stored == {"leg": {"to": "LIS", "on": "2026-12-01"}, "cents": 2**70}
    assert arguments.kwargs_from_json(stored) == {"leg": Leg(to="LIS", on=date(2026, 12, 1)), "cents": 2**70}
    with pytest.raises(InvalidArguments, match="cents: input should be a valid integer"):
        arguments.encode({"leg": Leg(to="LIS", on=date(2026, 12, 1)), "cents": "3"})


def test_the_name_of_a_file_that_is_no_utf8_comes_to_the_undo_as_it_was() -> None:
    """`os.fsdecode` gives lone surrogates; a result holds them, and an undo in the config is called with it."""

    def drop(path: str, legs: list[Leg], size: float = 1) -> None: ...

    arguments = tool_of(drop)
    stored: dict[str, Any] = {"path": "caf\udce9", "legs": [{"to": "LIS", "on": "2026-12-01"}], "size": 2}
    assert arguments.kwargs_from_json(stored) == {
        "path": "caf\udce9",
        "legs": [Leg(to="LIS", on=date(2026, 12, 1))],
        "size": 2.0,
    }
    with pytest.raises(InvalidArguments, match="size"):
        arguments.kwargs_from_json({**stored, "size": "much"})


def test_what_an_undo_part_is_registered_with_may_be_such_a_name() -> None:
    registry = ToolRegistry()

    @registry.part
    def drop(path: str) -> None: ...

    arguments = registered(registry).callables["drop"].arguments
    stored = arguments.encode({"path": "caf\udce9"})
    assert arguments.kwargs_from_json(stored) == {"path": "caf\udce9"}


def test_a_types_own_code_may_raise_anything() -> None:
    def fail(value: int) -> int:
        raise KeyError(value)

    def take(value: Annotated[int, AfterValidator(fail)]) -> None: ...

    assert problems(tool_of(take), {"value": 3}) == ["cannot be read: KeyError"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_json_value_survives_unchanged(value: object) -> None:
    def take(value: object) -> None: ...

    decoded = tool_of(take).decode({"value": value})
    assert decoded.json == {"value": value}
    assert decoded.kwargs == {"value": value}
