"""YAML on foreign text, as far as it is another way of writing JSON. Imported only where an expression reads some.

The library only says what stands where; what it means is decided here, by the core schema of YAML 1.2 (so `no` and `on`
are words). Nothing is ever constructed by tag, and what could grow (aliases) or be read in two ways is refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import yaml

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding.errors import Unfit
from saga_mcp.tools.binding.values import MAX_DEPTH, MAX_INPUT_BYTES, weigh

# Where PyYAML was built without libyaml: the same, and slower.
_Loader: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_MAX_EVENTS: Final = 30_000
"""Of the library, which tells values and the ends of lists and objects one by one: 256 kB of the shortest ones would
hold a thread for a second."""
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INT: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o([0-7]+)|0x([0-9a-fA-F]+)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NO_TAG: Final = frozenset({None, "!"})
_OLD: Final = (1, 1)


def read(text: str) -> JsonValue:
    """Return the one value that a YAML text holds.

    Raises:
        Unfit: It is no YAML, holds none or several documents, something that JSON has no word for, an alias, a tag or a
            key twice, or is too large or too deep.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_INPUT_BYTES:
        raise Unfit(f"the text is larger than {MAX_INPUT_BYTES} bytes")
    reading = _Reading()
    try:
        for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
            if number > _MAX_EVENTS:
                raise Unfit("the text holds too many values")
            reading.take(event)
    except (yaml.YAMLError, ValueError):  # its own words quote the text
        raise Unfit("the text is not YAML") from None
    if not reading.documents:
        raise Unfit("the text holds no document")
    weigh(reading.value)
    return reading.value


@dataclass(slots=True)
class _Sequence:
    """A list that is being read."""

    items: list[JsonValue] = field(default_factory=list["JsonValue"])


@dataclass(slots=True)
class _Mapping:
    """An object that is being read."""

    members: dict[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    key: str | None = None
    """Whose value comes next; None: a key does."""


_Open: TypeAlias = _Sequence | _Mapping


@dataclass(slots=True)
class _Reading:
    """What has been read so far."""

    documents: int = 0
    value: JsonValue = None
    _open: list[_Open] = field(default_factory=list["_Open"])

    def take(self, event: yaml.Event) -> None:
        """Go on by one event of the library.

        Raises:
            Unfit: It is none of a JSON value.
        """
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin(_Sequence(), event.tag)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin(_Mapping(), event.tag)
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = self._open.pop()
            self._put(closed.items if isinstance(closed, _Sequence) else closed.members)
        elif isinstance(event, yaml.AliasEvent):
            raise Unfit("the text holds an alias")
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise Unfit("the text holds more than one document")
            if event.version == _OLD:
                raise Unfit("the text says that it is YAML 1.1")

    def _begin(self, container: _Open, tag: str | None) -> None:
        _refuse_tag(tag)
        if self._wants_key:
            raise Unfit("a key of an object is no text")
        if len(self._open) == MAX_DEPTH:
            raise Unfit(f"the text is nested deeper than {MAX_DEPTH} levels")
        self._open.append(container)

    @property
    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], _Mapping) and self._open[-1].key is None

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        _refuse_tag(event.tag)
        plain = not event.style and event.tag is None
        if not self._wants_key:
            self._put(_meaning(event.value) if plain else event.value)
        elif plain and event.value in _NULL:
            raise Unfit("a key of an object is no text")
        else:
            self._key(event.value)  # as it is written: JSON has only texts there

    def _key(self, name: str) -> None:
        within = self._open[-1]
        if isinstance(within, _Mapping):
            if name in within.members:
                raise Unfit("an object has a key twice")
            within.key = name

    def _put(self, value: JsonValue) -> None:
        if not self._open:
            self.value = value
            return
        match self._open[-1]:
            case _Sequence(items=items):
                items.append(value)
            case _Mapping(members=members, key=str(key)) as within:
                members[key], within.key = value, None
            case _:
                raise Unfit("a key of an object is no text")


def _refuse_tag(tag: str | None) -> None:
    if tag not in _NO_TAG:
        raise Unfit("the text holds a tag")


def _meaning(text: str) -> JsonValue:
    """What a plain word means (YAML 1.2.2, 10.3.2)."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if based := _BASED.fullmatch(text):
        return int(based[1], 8) if based[1] else int(based[2], 16)
    if _NO_NUMBER.fullmatch(text):
        raise Unfit("the text holds a number that JSON has no word for")
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise Unfit("the text holds a number that JSON has no word for")
        return number
    return text
