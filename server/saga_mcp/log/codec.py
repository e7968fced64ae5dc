"""Events as rows: (type, version, facts, payload), derived from the dataclasses of `domain.events`.

Lies beside the port, not in an adapter: every database stores the same text, and an export can be read without one.
Fields marked `PAYLOAD` go to a JSON of their own (S11.4), so that wiping it leaves an event that still decodes and
folds. Facts are always written out in full: a default that changes in the code must not change what an old log says.

Each class is inspected once, at its first use; encoding and decoding then only follow the prepared plan.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, Union, cast, get_args, get_origin, get_type_hints

from saga_mcp.domain import events as domain_events
from saga_mcp.domain.events import Event
from saga_mcp.domain.values import JsonValue

VERSION: Final = 1
"""Version of every event type today. A type whose meaning changes gets its own number and a way to read the old one."""


class EncodedEvent(NamedTuple):
    """One event as it is stored."""

    type: str
    version: int
    facts: str
    payload: str | None
    """None: the event carries no values, or they were wiped."""


class UnreadableEvent(ValueError):
    """A stored event that this version does not understand: unknown type or version, or malformed."""


def encode(event: Event) -> EncodedEvent:
    """Return `event` as it is stored. A number that JSON has no word for (NaN, infinity) becomes null (S14.4).

    Raises:
        TypeError, ValueError: a payload holds something that is no JSON value.
    """
    plan = _plan(cast("type", type(event)))
    facts, payload = plan.split(event)
    return EncodedEvent(plan.name, VERSION, _dump(facts), _dump(payload) if payload else None)


def decode(type_name: str, version: int, facts: str, payload: str | None) -> Event:
    """Return the event that `encode` wrote.

    Raises:
        UnreadableEvent: this version of the program cannot tell what was stored.
    """
    cls = _TYPES.get(type_name)
    if cls is None:
        raise UnreadableEvent(f"unknown event type {type_name!r}")
    if version != VERSION:
        raise UnreadableEvent(f"unknown version {version} of event {type_name}")
    try:
        values = _exact.decode(facts)
        hidden = _exact.decode(payload or "{}")
    except (ValueError, TypeError, RecursionError) as error:
        raise UnreadableEvent(f"{type_name} is not valid JSON: {error}") from error
    return cast("Event", _plan(cls).join(values, hidden))


def dump_json(value: JsonValue) -> str:
    """Return `value` as the text that the log stores: compact ASCII, every integer exact, no NaN."""
    return _dump(value)


_TYPES: Final[dict[str, type]] = {
    cls.__name__: cls for family in get_args(domain_events.Event) for cls in (get_args(family) or (family,))
}


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


_exact = json.JSONDecoder(parse_constant=_refuse)
_strict = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _dump(value: object) -> str:
    try:
        return _strict.encode(value)
    except ValueError:
        return _strict.encode(_finite(value))


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _finite(item) for key, item in cast("dict[str, object]", value).items()}
        case list() | tuple():
            return [_finite(item) for item in cast("list[object]", value)]
        case _:
            return value


# --- plans ------------------------------------------------------------------------------------------------------------

_Split: TypeAlias = Callable[[Any], tuple[Any, Any]]
"""Value of a field -> its facts and its payload (None: nothing to hide)."""
_Join: TypeAlias = Callable[[Any, Any], Any]
"""Facts and payload of a field -> its value; raises `UnreadableEvent`."""


@dataclass(frozen=True, slots=True)
class _Nested:
    """How a field whose type holds dataclasses is taken apart and put together."""

    split: _Split
    join: _Join


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one dataclass is stored."""

    cls: type
    facts: tuple[tuple[str, Callable[[Any], Any]], ...]
    """Name and check of each plain field; the check returns the value, or raises ValueError."""
    nested: tuple[tuple[str, _Nested], ...]
    payload: tuple[tuple[str, Any], ...]
    """Name and default of each hidden field: what equals its default is not written."""

    @property
    def name(self) -> str:
        return self.cls.__name__

    def split(self, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401 - any dataclass
        facts: dict[str, Any] = {name: getattr(value, name) for name, _ in self.facts}
        payload: dict[str, Any] = {}
        for name, default in self.payload:
            if (hidden := getattr(value, name)) != default:
                payload[name] = hidden
        for name, nested in self.nested:
            facts[name], hidden = nested.split(getattr(value, name))
            if hidden:
                payload[name] = hidden
        return facts, payload

    def join(self, facts: Any, payload: Any) -> Any:  # noqa: ANN401 - stored JSON in, any dataclass out
        if not _is_object(facts) or not _is_object(payload):
            raise UnreadableEvent(f"{self.name} is not an object")
        values: dict[str, Any] = {}
        try:
            for name, check in self.facts:
                if name in facts:
                    values[name] = check(facts[name])
            for name, nested in self.nested:
                if name in facts:
                    values[name] = nested.join(facts[name], payload.get(name))
        except UnreadableEvent as error:
            raise UnreadableEvent(f"{self.name}: {error}") from error
        except (ValueError, TypeError) as error:
            raise UnreadableEvent(f"{self.name} is malformed: {error}") from error
        if len(values) != len(facts):
            raise UnreadableEvent(
                f"{self.name} holds unknown fields: {', '.join(sorted(facts.keys() - values.keys()))}"
            )
        for name, _ in self.payload:
            if name in payload:
                values[name] = payload[name]
        try:
            return self.cls(**values)
        except TypeError as error:
            raise UnreadableEvent(f"{self.name} is malformed: {error}") from error


@cache
def _plan(cls: type) -> _Plan:
    hints = get_type_hints(cls)
    facts: list[tuple[str, Callable[[Any], Any]]] = []
    nested: list[tuple[str, _Nested]] = []
    payload: list[tuple[str, Any]] = []
    for field in fields(cls):
        if field.metadata.get("payload"):
            payload.append((field.name, _default(field)))
        elif (taken_apart := _nested(hints[field.name])) is not None:
            nested.append((field.name, taken_apart))
        else:
            facts.append((field.name, _check(hints[field.name])))
    return _Plan(cls, tuple(facts), tuple(nested), tuple(payload))


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _unwrap_optional(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type hint
    if get_origin(hint) in {Union, UnionType}:
        inner = [arm for arm in get_args(hint) if arm is not NoneType]
        if len(inner) == 1:
            return inner[0], True
    return hint, False


def _nested(hint: Any) -> _Nested | None:  # noqa: ANN401 - a type hint
    inner, optional = _unwrap_optional(hint)
    if is_dataclass(inner):
        taken_apart = _one(_plan(cast("type", inner)))
    elif get_origin(inner) is tuple and is_dataclass(get_args(inner)[0]):
        taken_apart = _many(_plan(get_args(inner)[0]))
    else:
        return None
    return _or_none(taken_apart) if optional else taken_apart


def _one(plan: _Plan) -> _Nested:
    return _Nested(plan.split, lambda facts, payload: plan.join(facts, {} if payload is None else payload))


def _many(plan: _Plan) -> _Nested:
    def split(values: tuple[Any, ...]) -> tuple[list[Any], list[Any] | None]:
        pairs = [plan.split(value) for value in values]
        hidden = [payload or None for _, payload in pairs]
        return [facts for facts, _ in pairs], hidden if any(hidden) else None

    def join(facts: Any, payload: Any) -> tuple[Any, ...]:  # noqa: ANN401 - stored JSON
        if not _is_list(facts):
            raise UnreadableEvent(f"a list of {plan.name} is expected")
        hidden = payload if _is_list(payload) else [None] * len(facts)
        return tuple(plan.join(one, values or {}) for one, values in zip(facts, hidden, strict=True))

    return _Nested(split, join)


def _or_none(some: _Nested) -> _Nested:
    def split(value: Any) -> tuple[Any, Any]:  # noqa: ANN401 - any field value
        return (None, None) if value is None else some.split(value)

    def join(facts: Any, payload: Any) -> Any:  # noqa: ANN401 - stored JSON in, any field value out
        return None if facts is None else some.join(facts, payload)

    return _Nested(split, join)


def _check(hint: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - a type hint
    inner, optional = _unwrap_optional(hint)
    if get_origin(inner) is tuple:
        check = _tuple_of(_check(get_args(inner)[0]))
    elif isinstance(inner, type) and issubclass(inner, Enum):
        check = cast("Callable[[Any], Any]", inner)
    elif inner in {str, int, bool, float}:
        check = _exactly(inner)
    else:
        raise TypeError(f"no way to store a field of type {hint!r}")
    return (lambda value: None if value is None else check(value)) if optional else check


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:  # noqa: ANN401 - stored JSON
        if type(value) is not kind:
            raise ValueError(f"{kind.__name__} expected, not {type(value).__name__}")
        return value

    return check


def _tuple_of(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def check_all(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - stored JSON
        if not _is_list(value):
            raise ValueError(f"list expected, not {type(value).__name__}")
        return tuple(check(item) for item in value)

    return check_all
