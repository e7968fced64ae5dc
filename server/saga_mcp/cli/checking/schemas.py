"""Looking into JSON Schemas: what a path leads to, and whether it may be absent. Pure.

A schema is foreign data: what is not understood counts as "nothing is known", never as a mistake of the config.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from saga_mcp.domain.values import JsonObject, JsonValue

Schema: TypeAlias = JsonObject
ANYTHING: Schema = {}
"""The schema of what nothing is known of."""
_BRANCHES = ("anyOf", "oneOf")
_MOST_PARTS = 20_000
"""Of a schema with its references followed; what is beyond is not looked at."""
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Found:
    """A path leads to what one of these schemas describes."""

    schemas: tuple[Schema, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known of what a path leads through."""


@dataclass(frozen=True, slots=True)
class Absent:
    """There is nothing of that name, where all names are known."""

    depth: int
    """How many parts of the path are there."""
    known: tuple[str, ...]
    """The names that are there instead."""


def plain(schema: Schema) -> Schema:
    """Return a schema with its references replaced by what they name and `allOf` merged; a circle says nothing."""
    return _Plainer(schema).of(schema, (), _DEEPEST)


def look_up(schema: Schema, path: Sequence[str | int]) -> Found | Unknown | Absent:
    """Follow a path into values of a plain schema: into any alternative of it, for only one of them is there."""
    here = alternatives(schema)
    for depth, part in enumerate(path):
        following: list[Schema] = []
        for each in here:
            step = _step(each, part)
            if step is None:
                return Unknown()
            following += step
        if not following:
            return Absent(depth, tuple(dict.fromkeys(name for each in here for name in properties(each))))
        here = [one for each in following for one in alternatives(each)]
    return Found(tuple(here))


def alternatives(schema: Schema) -> list[Schema]:
    """The schemas of which a value fits one."""
    for word in _BRANCHES:
        branches = schema.get(word)
        if isinstance(branches, list) and branches:
            beside = {key: value for key, value in schema.items() if key != word}
            return [
                one
                for branch in branches
                for one in alternatives(_merged(beside, branch if isinstance(branch, dict) else ANYTHING))
            ]
    return [schema]


def _step(schema: Schema, part: str | int) -> list[Schema] | None:
    """Where a part leads; None: nothing is known of it. An empty list: nowhere."""
    types = types_of(schema)
    if isinstance(part, int):
        if types and "array" not in types:
            return []
        firsts = schema.get("prefixItems")
        if isinstance(firsts, list) and part < len(firsts):
            return [as_schema(firsts[part])]
        items = schema.get("items")
        return [items] if isinstance(items, dict) else None
    if types and "object" not in types:
        return []
    named = properties(schema)
    if part in named:
        return [as_schema(named[part])]
    return None if is_open(schema) else []


def is_open(schema: Schema) -> bool:
    """Whether an object of it may hold other members than those that it names, by its word or as it names none."""
    more = schema.get("additionalProperties")
    said = more is True or isinstance(more, dict) or bool(schema.get("patternProperties"))
    return said or (not properties(schema) and more is not False)


def as_schema(value: JsonValue) -> Schema:
    """A part of a schema as one; what is none says nothing."""
    return value if isinstance(value, dict) else ANYTHING


def properties(schema: Schema) -> Mapping[str, JsonValue]:
    """The members that it names."""
    return as_schema(schema.get("properties"))


def required(schema: Schema) -> tuple[str, ...]:
    """The members that have to be there."""
    names = schema.get("required")
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def types_of(schema: Schema) -> tuple[str, ...]:
    """The types that it names; none: it does not say."""
    said = schema.get("type")
    if isinstance(said, str):
        return (said,)
    if isinstance(said, list):
        return tuple(str(each) for each in said)
    if properties(schema):
        return ("object",)
    return ("array",) if isinstance(schema.get("items"), dict) else ()


def says_all(schema: Schema) -> bool:
    """Whether it describes its values down to the last member, so that a sample of it is like the real thing."""
    return all(map(_says_all, alternatives(schema)))


def _says_all(schema: Schema) -> bool:
    if "const" in schema or "enum" in schema:
        return True
    types = types_of(schema)
    if "object" in types and (
        is_open(schema) or not all(says_all(as_schema(one)) for one in properties(schema).values())
    ):
        return False
    if "array" in types and not ("items" in schema and says_all(as_schema(schema["items"]))):
        return False
    return bool(types)


class _Plainer:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST_PARTS

    def of(self, schema: Schema, open_references: tuple[str, ...], depth: int) -> Schema:
        self._left -= 1
        if self._left < 0 or depth == 0:
            return ANYTHING
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in open_references:
                return ANYTHING
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return self.of(_merged(self._target(reference), beside), (*open_references, reference), depth - 1)
        made: Schema = {}
        for key, value in schema.items():
            if key in {"properties", "patternProperties"} and isinstance(value, dict):
                made[key] = {name: self._inner(each, open_references, depth) for name, each in value.items()}
            elif key in {"items", "additionalProperties", "not"}:
                made[key] = self._inner(value, open_references, depth)
            elif key in {"anyOf", "oneOf", "allOf", "prefixItems"} and isinstance(value, list):
                made[key] = [self._inner(each, open_references, depth) for each in value]
            elif key not in {"$defs", "definitions", "$schema", "$id"}:
                made[key] = value
        parts = made.pop("allOf", None)
        for part in parts if isinstance(parts, list) else ():
            made = _merged(made, as_schema(part))
        return made

    def _inner(self, value: JsonValue, open_references: tuple[str, ...], depth: int) -> JsonValue:
        return self.of(value, open_references, depth - 1) if isinstance(value, dict) else value

    def _target(self, reference: str) -> Schema:
        """What a reference names inside the same schema; nothing elsewhere is fetched."""
        if not reference.startswith("#"):
            return ANYTHING
        found: JsonValue = self._root
        for part in filter(None, reference[1:].split("/")):
            if not isinstance(found, dict):
                return ANYTHING
            found = found.get(part.replace("~1", "/").replace("~0", "~"))
        return as_schema(found)


def _merged(one: Schema, other: Schema) -> Schema:
    merged = {**one, **other}
    if both := {**properties(one), **properties(other)}:
        merged["properties"] = both
    if names := dict.fromkeys((*required(one), *required(other))):
        merged["required"] = [*names]
    return merged
