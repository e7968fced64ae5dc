"""Samples of a JSON Schema: what a call, or an answer, may look like. Pure, and the same each time.

Three sizes: only what has to be there; everything, with ordinary values; everything at its edges. Where a property has
a few values to choose from, one of each, because conditions of a config ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from saga_mcp.cli.checking.schemas import Schema, alternatives, as_schema, properties, required, types_of
from saga_mcp.domain.values import JsonObject, JsonValue

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_DEEPEST = 6
_MOST_CHOICES = 24
_FORMATS = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "uri": "https://example.com/a/1",
    "url": "https://example.com/a/1",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
}


class Size(StrEnum):
    """How much of what may be there is in a sample."""

    LEAST = "least"
    FULL = "full"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value that fits a schema."""

    size: Size
    value: JsonValue


def samples_of(schema: Schema) -> tuple[Sample, ...]:
    """Return samples that fit a plain schema, a full one first; none where it cannot be told what fits."""
    made = [
        Sample(Size.FULL, _value(schema, Size.FULL, _DEEPEST)),
        *(Sample(Size.FULL, choice) for choice in _choices(schema)),
        Sample(Size.LEAST, _value(schema, Size.LEAST, _DEEPEST)),
        Sample(Size.EDGE, _value(schema, Size.EDGE, _DEEPEST)),
    ]
    validator = _validator(schema)
    return tuple(each for each in made if validator is None or validator.is_valid(each.value))


def _validator(schema: Schema) -> Validator | None:
    from jsonschema_rs import validator_for  # noqa: PLC0415 - only where there is something to sample

    try:
        return validator_for(schema, retriever=_fetch_nothing)
    except Exception:  # noqa: BLE001 - a foreign schema may hold anything; then nothing is held to it
        return None


def _fetch_nothing(uri: str) -> NoReturn:
    raise LookupError(uri)


def _choices(schema: Schema) -> Iterator[JsonObject]:
    """One full sample for each other value of each property that has a few to choose from."""
    left = _MOST_CHOICES
    for each in alternatives(schema):
        whole = _value(each, Size.FULL, _DEEPEST)
        if not isinstance(whole, dict):
            continue
        for name, inner in properties(each).items():
            for choice in _listed(as_schema(inner)):
                if left and whole.get(name) != choice:
                    left -= 1
                    yield {**whole, name: choice}


def _listed(schema: Schema) -> Iterator[JsonValue]:
    for each in alternatives(schema):
        values = each.get("enum")
        if isinstance(values, list):
            yield from values
        elif "const" in each:
            yield each["const"]
        elif types_of(each) == ("boolean",):
            yield from (True, False)


def _value(schema: Schema, size: Size, depth: int) -> JsonValue:
    every = alternatives(schema)
    chosen = every[-1] if size is Size.EDGE else next((one for one in every if types_of(one) != ("null",)), every[0])
    if "const" in chosen:
        return chosen["const"]
    values, examples, default = (chosen.get(word) for word in ("enum", "examples", "default"))
    if isinstance(values, list) and values:
        return values[-1 if size is Size.EDGE else 0]
    if size is Size.FULL and isinstance(examples, list) and examples:
        return examples[0]
    if size is Size.FULL and default not in (None, "", [], {}):
        return default
    types = types_of(chosen)
    if size is Size.EDGE and "null" in types:
        return None
    kind = next((each for each in types if each != "null"), "null" if types else "")
    if kind == "object":
        return _object(chosen, size, depth)
    return _array(chosen, size, depth) if kind == "array" else _scalar(kind, chosen, size)


def _object(schema: Schema, size: Size, depth: int) -> JsonValue:
    needed = required(schema)
    made: JsonObject = {}
    for name, inner in properties(schema).items():
        if name in needed or (size is not Size.LEAST and depth > 0):
            made[name] = _value(as_schema(inner), size, depth - 1)
    more = schema.get("additionalProperties")
    if not made and isinstance(more, dict) and size is Size.FULL and depth > 0:
        made["key"] = _value(more, size, depth - 1)
    return made


def _array(schema: Schema, size: Size, depth: int) -> JsonValue:
    items, least, firsts = as_schema(schema.get("items")), schema.get("minItems"), schema.get("prefixItems")
    one = 1 if size is Size.FULL and depth > 0 and items else 0  # of items that nothing describes, none would be right
    count = max(int(least) if isinstance(least, int | float) else 0, one)
    made = [_value(as_schema(each), size, depth - 1) for each in firsts] if isinstance(firsts, list) else []
    return made + [_value(items, size, depth - 1) for _ in range(min(count, 100) - len(made))]


def _scalar(kind: str, schema: Schema, size: Size) -> JsonValue:
    match kind:
        case "string":
            return _text(schema, size)
        case "integer":
            return math.ceil(_number(schema, size))
        case "number":  # one with a fraction, and one that a client writes without
            number = _number(schema, size)
            return number + 0.5 if size is Size.FULL and "multipleOf" not in schema else math.ceil(number)
        case "boolean":
            return size is Size.FULL
        case "null":
            return None
        case _:
            return {}


def _text(schema: Schema, size: Size) -> str:
    said = schema.get("format")
    if isinstance(said, str) and said in _FORMATS:
        return _FORMATS[said]
    least, most = (schema.get(word) for word in ("minLength", "maxLength"))
    text = "" if size is Size.EDGE else "text"
    text += "x" * ((int(least) if isinstance(least, int | float) else 0) - len(text))
    return text[: int(most)] if isinstance(most, int | float) else text


def _number(schema: Schema, size: Size) -> float:
    low = max(_bound(schema, "minimum", -math.inf), _bound(schema, "exclusiveMinimum", -math.inf) + 1)
    high = min(_bound(schema, "maximum", math.inf), _bound(schema, "exclusiveMaximum", math.inf) - 1)
    edge = low if math.isfinite(low) else min(0, high)
    value = edge if size is Size.EDGE else min(max(1, low), high)
    step = schema.get("multipleOf")
    return math.ceil(value / step) * step if isinstance(step, int | float) and step > 0 else value


def _bound(schema: Schema, word: str, otherwise: float) -> float:
    bound = schema.get(word)
    return float(bound) if isinstance(bound, int | float) and not isinstance(bound, bool) else otherwise
