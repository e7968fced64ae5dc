"""What the server decides about a call by itself: its case, and arguments that agents do not see (DESIGN.md 5.1)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, cast

from saga_mcp.domain.ids import key_bytes
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.binding import CannotBind, TemplateError, compile_condition
from saga_mcp.tools.pair import KeyFormat, Pair
from saga_mcp.tools.unsent import InvalidArguments
from saga_mcp.tools.variables import BEFORE_INTENT

_SOME_KEY = "0" * 26


def pair_for(pair: Pair, args: JsonObject) -> Pair:
    """Return what a tool is for one call: its first case that holds.

    Raises:
        InvalidArguments: none does, or one cannot be decided: nothing may be sent (S11.3).
    """
    if not pair.cases:
        return pair
    values: dict[str, JsonValue] = {"args": args, "saga": {}}
    for case in pair.cases:
        try:
            if compile_condition(case.when, variables=BEFORE_INTENT).holds(values):
                return case.pair
        except (CannotBind, TemplateError) as undecided:
            raise InvalidArguments((f"whether this call can be undone cannot be told: {undecided}",)) from undecided
    raise InvalidArguments(("nothing says how a call with these arguments could be undone, so it is refused",))


def shown(schema: Mapping[str, Any], pair: Pair) -> JsonObject:
    """Return a tool's input schema as agents see it."""
    hidden = _hidden(pair)
    copy = dict(schema)
    if hidden:
        properties = cast("Mapping[str, Any]", schema.get("properties", {}))
        copy["properties"] = {name: value for name, value in properties.items() if name not in hidden}
        if "required" in schema:
            copy["required"] = [name for name in cast("list[str]", schema["required"]) if name not in hidden]
    return cast("JsonObject", copy)


def completed(arguments: Mapping[str, JsonValue], pair: Pair) -> Mapping[str, JsonValue]:
    """Return what an agent gave with what the server sets; the key stands for one that is not known yet.

    Raises:
        InvalidArguments: the agent gave what is not its to give.
    """
    hidden = _hidden(pair)
    if not hidden:
        return arguments
    if unasked := sorted(hidden & arguments.keys()):
        raise InvalidArguments(tuple(f"unknown argument {name}" for name in unasked))
    key = {pair.key_arg: written_key(_SOME_KEY, pair.key_format)} if pair.key_arg else {}
    return {**arguments, **pair.force, **key}


def given(args: JsonObject, pair: Pair) -> JsonObject:
    """Return what an agent gave of a step's arguments: the others the server sets again."""
    hidden = _hidden(pair)
    return {name: value for name, value in args.items() if name not in hidden}


def asks(pair: Pair, args: JsonObject) -> bool:
    """Return whether a person has to allow a call; where that cannot be told, one has to (S11.3)."""
    if isinstance(pair.approval, bool):
        return pair.approval
    values: dict[str, JsonValue] = {"args": args, "saga": {}}
    try:
        return compile_condition(pair.approval, variables=BEFORE_INTENT).holds(values)
    except (CannotBind, TemplateError):
        return True


def without_key(args: JsonObject, pair: Pair) -> JsonObject:
    """Return decoded arguments without the place of the key, which is no part of what the call says."""
    return {name: value for name, value in args.items() if name != pair.key_arg} if pair.key_arg else args


def with_key(args: JsonObject, pair: Pair, key: str) -> JsonObject:
    """Return a step's arguments as they are sent."""
    return {**args, pair.key_arg: written_key(key, pair.key_format)}


def written_key(key: str, form: KeyFormat) -> str:
    """Return a step's key in another form: the same 128 bits."""
    match form:
        case KeyFormat.BASE32:
            return key
        case KeyFormat.HEX:
            return key_bytes(key).hex()
        case KeyFormat.UUID:
            return str(uuid.UUID(bytes=key_bytes(key)))


def _hidden(pair: Pair) -> frozenset[str]:
    return frozenset(name for name in (*pair.force, pair.key_arg) if name)
