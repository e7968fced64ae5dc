"""The functions an expression may call, and how each is written.

CEL's own, the package's standard library, and ours: `regex`, `regex_all`, `json`, `yaml`, `base64_decode`. The engine
finds a misspelt name only when it runs, so this table is what names are checked against at load.

Every Python function is wrapped: the engine logs a failed one with its message, and the library's messages quote the
arguments, which must not reach a log.
"""

from __future__ import annotations

import base64
import binascii
import functools
import inspect
import json as json_text
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from enum import Flag, auto
from typing import Any, NoReturn, TypeAlias

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding.errors import Unfit
from saga_mcp.tools.binding.patterns import matches
from saga_mcp.tools.binding.runtime import STDLIB_FUNCTIONS
from saga_mcp.tools.binding.values import refuse_many, weigh

Function: TypeAlias = Callable[..., Any]
"""Takes and returns what the engine converts; Any, because CEL is dynamic."""


class Style(Flag):
    """How a function is written."""

    GLOBAL = auto()
    """`f(x)`"""
    METHOD = auto()
    """`x.f()`"""
    BOTH = GLOBAL | METHOD


MACROS: Mapping[str, range] = {
    "all": range(2, 3),
    "exists": range(2, 3),
    "exists_one": range(2, 3),
    "existsOne": range(2, 3),
    "filter": range(2, 3),
    "map": range(2, 4),
}
"""Comprehensions, and how many arguments each takes."""

TAKES_PATTERN = frozenset({"matches", "regex", "regex_all"})
"""The pattern comes second, the receiver counted."""

_QUADRATIC = frozenset({"distinct", "sets.contains", "sets.equivalent", "sets.intersects"})

NAMESPACES = frozenset({"base64", "math", "optional", "sets", "strings"})

TYPES = frozenset({"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"})
"""Names that stand for a type, as in `type(x) == int`."""

# `lists.range` makes as many items as an argument says; no undo argument needs it.
_WITHHELD = frozenset({"lists.range"})

SEARCHES = frozenset({"contains", "startsWith", "endsWith", "matches", "regex", "size", "has", "base64_decode"})
"""What takes time with the length of a text and makes no list of it."""

_NO_DEFAULT = object()


def regex(text: str, pattern: str, default: object = _NO_DEFAULT) -> object:
    """Return the first capture group of the first match, or the whole match where the pattern has no group.

    Raises:
        Unfit: Nothing matches, or the group took no part in it, and no default is given.
    """
    value = next(matches(pattern, text), None)
    if value is not None:
        return value
    if default is _NO_DEFAULT:
        raise Unfit("the pattern does not match")
    return default


def regex_all(text: str, pattern: str) -> list[JsonValue]:
    """Return the first capture group, or the whole match, of every match in order."""
    return list(matches(pattern, text))


def json(text: str) -> JsonValue:
    """Return the JSON value that `text` holds.

    Raises:
        Unfit: It is no JSON, or holds what the engine cannot keep exactly.
    """
    try:
        value: JsonValue = json_text.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Unfit("the text is not JSON") from None
    weigh(value)
    return value


def yaml(text: str) -> JsonValue:
    """Return the value that `text` holds as YAML (1.2), where JSON could say the same.

    Raises:
        Unfit: It is no such YAML; see `yaml_text`.
    """
    from saga_mcp.tools.binding.yaml_text import read  # noqa: PLC0415 - a library that few configs need

    return read(text)


def base64_decode(text: str) -> str:
    """Return the text that base64 holds; line breaks between its characters are allowed, as MIME and GitHub send them.

    Raises:
        Unfit: It is not base64, or what it holds is not UTF-8.
    """
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except binascii.Error:
        raise Unfit("the text is not base64") from None
    except UnicodeDecodeError:
        raise Unfit("the decoded bytes are not UTF-8 text") from None


def _no_constant(_name: str) -> NoReturn:
    raise ValueError


def _guarded(name: str, function: Function) -> Function:
    @functools.wraps(function)
    def call(*args: object) -> object:
        try:
            return function(*args)
        except Unfit:
            raise
        except Exception:  # noqa: BLE001 - whatever the library raises quotes the arguments
            raise Unfit("it does not accept these arguments") from None

    call.__name__ = name
    return call


def _few(function: Function) -> Function:
    def call(*args: object) -> object:
        value = function(*args)
        refuse_many(value)
        return value

    return call


_OURS: Mapping[str, Function] = {
    "regex": regex,
    "regex_all": regex_all,
    "json": json,
    "yaml": yaml,
    "base64_decode": base64_decode,
}

PYTHON: Mapping[str, Function] = {
    name: _guarded(name, function) for name, function in {**STDLIB_FUNCTIONS, **_OURS}.items() if name not in _WITHHELD
}
"""Functions that the engine calls back for."""

_NATIVE: Mapping[tuple[Style, int], str] = {
    (Style.GLOBAL, 0): "optional.none",
    (
        Style.GLOBAL,
        1,
    ): "bytes double duration dyn has int optional.of optional.ofNonZeroValue size string timestamp type uint",
    (
        Style.METHOD,
        1,
    ): "getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth"
    " getSeconds hasValue size value",
    (Style.METHOD, 2): "contains endsWith matches or orValue startsWith",
}
"""CEL's own by style and number of arguments, the receiver counted."""

_NATIVE_COUNTS: Mapping[str, int] = {name: count for (_, count), names in _NATIVE.items() for name in names.split()}


def _styles() -> dict[str, Style]:
    styles = {name: Style.GLOBAL if "." in name else Style.BOTH for name in PYTHON}
    for (style, _), names in _NATIVE.items():
        for name in names.split():
            styles[name] = styles.get(name, style) | style
    return styles | dict.fromkeys(MACROS, Style.METHOD)


STYLES: Mapping[str, Style] = _styles()
"""Every callable name, the macros included."""


def implementations(names: AbstractSet[str], *, loops: bool) -> dict[str, Function]:
    """Return what the engine has to be given for an expression that calls `names`.

    Args:
        names: As the analysis found them; the engine has its own for some.
        loops: What these make is run through a comprehension, so it may not hold too many items either.
    """
    chosen = {name: PYTHON[name] for name in names if name in PYTHON}
    return {name: _few(function) for name, function in chosen.items()} if loops else chosen


def loops(names: AbstractSet[str]) -> bool:
    """Return whether a call of one of `names` takes time with the square of the items it sees."""
    return not names.isdisjoint(MACROS.keys() | _QUADRATIC)


def takes(name: str, count: int) -> bool:
    """Return whether a function may be called with `count` arguments, the receiver counted."""
    if name not in PYTHON:
        return _NATIVE_COUNTS[name] == count
    try:
        inspect.signature(PYTHON[name]).bind(*range(count))
    except TypeError:
        return False
    return True
