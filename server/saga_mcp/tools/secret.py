"""Which secret arguments of a tool have to be stored with its calls, because something is to see them later (S11.4)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import cast

from saga_mcp.domain.values import JsonObject, JsonValue, Kind
from saga_mcp.tools.binding import TemplateError, compile_template
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.undo_plan import AT_SENDING
from saga_mcp.tools.variables import NOW

_VARIABLES = AT_SENDING | NOW | {"cause"}


def with_secrets(pair: Pair, secret: Collection[str], needed: Collection[str] = ()) -> Pair:
    """Return a pair some of whose arguments are secret.

    Args:
        pair: The pair, whole.
        secret: Names of the arguments.
        needed: Those that somebody sees later of whom the pair does not tell.
    """
    # A retriable call is sent again from the log, by whoever is alive then (S7.2).
    stored = frozenset(secret) if pair.kind is Kind.RETRIABLE else named(pair) | frozenset(needed)
    kept_whole = _ALL in stored
    sealed = () if kept_whole else tuple(name for name in secret if name not in stored)
    return replace(pair, secret=tuple(secret), sealed=sealed)


_ALL = ""
"""In place of the name of an argument: an expression looks at all of them."""


def named(pair: Pair) -> frozenset[str]:
    """Return the arguments that its expressions look at after the call was begun."""
    content = cast("JsonObject", json.loads(json.dumps(pair.to_json())))
    del content["approval"]  # it is judged once, and a call that a person is asked is stored whole
    found: set[str] = set()
    for text in _texts(content):
        found |= arguments_in(text)
    return frozenset(found)


def secrets_in(text: str, secret: Collection[str]) -> list[str]:
    """Return the secret arguments that a text with expressions looks at."""
    looked_at = arguments_in(text)
    return [name for name in secret if name in looked_at or _ALL in looked_at]


def arguments_in(text: str) -> set[str]:
    """Return the arguments that a text with expressions looks at; an empty name: all."""
    try:
        paths = compile_template(text, variables=_VARIABLES).paths
    except TemplateError:
        return {_ALL}  # it is noted where it stands
    return {str(path[1]) if len(path) > 1 else _ALL for path in paths if path[0] == "args"}


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str() if "${" in value:
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case _:
            return
