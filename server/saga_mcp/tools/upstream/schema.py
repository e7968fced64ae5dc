"""Judging arguments by an upstream's own schema, and filling in the defaults that it states (DESIGN.md rule 8).

Pure. The schema is foreign: nothing that it refers to is fetched, and one that cannot be judged by refuses nothing,
because the upstream judges again.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast

from saga_mcp.domain.values import JsonObject, JsonValue
from saga_tools.server import fit_to_schema

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_MOST_PROBLEMS = 10
_LONGEST_PROBLEM = 300


class InputSchema:
    """The schema of a tool's arguments."""

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema

    def decoded(self, arguments: Mapping[str, JsonValue]) -> JsonObject:
        """Return the arguments as they are sent: in the forms that the schema admits (S14.4), with defaults."""
        return cast("JsonObject", _with_defaults(self.schema, fit_to_schema(self.schema, dict(arguments))))

    def problems(self, arguments: JsonObject) -> tuple[str, ...]:
        """What is wrong with arguments, each in a line; values are not shown, for they may be secret or long."""
        if no_json := unsendable(arguments):
            return (no_json,)
        try:
            return tuple(map(_line, itertools.islice(self._validator.iter_errors(arguments), _MOST_PROBLEMS)))
        except Exception:  # noqa: BLE001 - a foreign schema may hold anything, and the upstream judges again
            return ()

    @cached_property
    def _validator(self) -> Validator:
        # No start has to wait for this import.
        from jsonschema_rs import validator_for  # noqa: PLC0415 - see above

        return validator_for(self.schema, retriever=_fetch_nothing, mask="the value")


def unsendable(arguments: JsonObject) -> str:
    """Why no request can hold these arguments, whatever the schema says; empty: one can.

    Answers may bring them, and undos are built from answers: JSON can write half of a surrogate pair, or `NaN`.
    """
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return "arguments: a text in them is cut inside a character, so it cannot be sent"
    except (ValueError, RecursionError):
        return "arguments: they cannot be written as JSON"
    return ""


def misfit(problems: tuple[str, ...], *, was: JsonObject | None, now: JsonObject) -> str:
    """What a person is told of an undo that its tool does not take (S6.9).

    Args:
        problems: What is wrong with its arguments.
        was: The schema at the step's intent; None: not known.
        now: The schema today.
    """
    wrong = "; ".join(problems)
    if was == now:
        return f"its arguments do not fit, and the tool's schema is what it was: {wrong}"
    since = "" if was is None else "; ".join(_changes(was, now))
    return f"schema changed: {wrong} (since the step: {since})" if since else f"schema changed: {wrong}"


def _changes(was: JsonObject, now: JsonObject) -> tuple[str, ...]:
    """What has become of the arguments of a tool, where that is plain; never more than a person reads."""
    old, new = _properties(was), _properties(now)
    needed, needs = _required(was), _required(now)
    lines = [f"`{name}` is gone" for name in old if name not in new]
    lines += [f"`{name}` is new" for name in new if name not in old and name not in needs]
    lines += [f"`{name}` is required now" for name in needs if name not in needed]
    lines += [f"`{name}` is not what it was" for name in old if name in new and old[name] != new[name]]
    return tuple(lines[:_MOST_PROBLEMS])


def _properties(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: JsonObject) -> list[JsonValue]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def _fetch_nothing(uri: str) -> NoReturn:
    """What a schema refers to elsewhere stays unknown: judging arguments sends nothing."""
    raise LookupError(uri)


def _line(error: ValidationError) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"{where.lstrip('.') or 'arguments'}: {error.message}"[:_LONGEST_PROBLEM]


def _with_defaults(schema: object, value: object) -> object:
    """Fill in defaults of properties that are absent; only where the schema plainly says so, not through references."""
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return value
    given = cast("dict[str, Any]", value)
    named: object = cast("dict[str, object]", schema).get("properties")
    if not isinstance(named, dict):
        return given
    filled = {
        name: _with_defaults(cast("dict[str, object]", named).get(name), member) for name, member in given.items()
    }
    for name, inner in cast("dict[str, object]", named).items():
        if name not in filled and isinstance(inner, dict) and "default" in inner:
            stated = cast("dict[str, object]", inner)
            if not _means_left_out(stated):
                filled[name] = copy.deepcopy(stated["default"])
    return filled


def _means_left_out(stated: Mapping[str, object]) -> bool:
    """Whether a default is a null that the type beside it does not admit: so generators say that there is none."""
    kinds = stated.get("type")
    admits_null = kinds == "null" or (isinstance(kinds, list) and "null" in kinds)
    return stated["default"] is None and kinds is not None and not admits_null
