"""Values as they may go on the wire: what JSON cannot hold is replaced, and no foreign text can steer a terminal."""

import json
import math
import unicodedata
from collections.abc import Iterator

from saga_mcp.domain.values import JsonObject, JsonValue

_EXACT_IN_A_DOUBLE = 2**53
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that move the cursor, hide, reorder, or break a line."""


def clean(value: JsonValue) -> JsonValue:
    """Return `value` with NaN and infinities as null, and lone surrogates as U+FFFD (S14.4)."""
    match value:
        case str():
            return _valid(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {_valid(key): clean(item) for key, item in value.items()}
        case list():
            return [clean(item) for item in value]
        case _:
            return value


def _valid(text: str) -> str:
    if text.isascii():
        return text
    # Through UTF-16 so that a pair of surrogates that belong together becomes its character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_storable(text: str) -> bool:
    """Whether every log can hold it as a name or a title: no NUL, which PostgreSQL has not, and no half characters."""
    return "\0" not in text and _valid(text) == text


def present(entries: JsonObject) -> JsonObject:
    """Return the entries that say something: no null, false, empty text or empty list. A zero says something."""
    return {name: value for name, value in entries.items() if value not in (None, "", []) and value is not False}


def escape(text: str) -> str:
    """Return `text` as one line that shows what it holds: control and format characters are written out (S11.6)."""
    if text.isprintable():
        return text
    return "".join(_written_out(char) if unicodedata.category(char) in _UNSEEN else char for char in text)


def said_values(values: JsonObject) -> list[tuple[str, str]]:
    """Return each name and its value as JSON, exactly, for a person who has to know what a call would be made with."""
    return [(escape(name), escape(json.dumps(value, ensure_ascii=False))) for name, value in values.items()]


def _written_out(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def big_integers(value: JsonValue) -> dict[str, str]:
    """Return the integers that a double cannot hold, as text, by JSON pointer: hosts in JavaScript round them."""
    return dict(_big(value, ""))


def _big(value: JsonValue, at: str) -> Iterator[tuple[str, str]]:
    match value:
        case bool():
            return
        case int() if abs(value) > _EXACT_IN_A_DOUBLE:
            yield at, str(value)
        case dict():
            for key, item in value.items():
                yield from _big(item, f"{at}/{key.replace('~', '~0').replace('/', '~1')}")
        case list():
            for index, item in enumerate(value):
                yield from _big(item, f"{at}/{index}")
        case _:
            return
