"""JSON values: what may be inside, which form of them a schema admits, and how any Python value becomes one.

Pure functions on plain values; the only place where a value that JSON cannot carry is given a form.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from pydantic_core import to_jsonable_python

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value JSON text can carry; integers of any size, no NaN. Lone surrogates have escapes."""

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema (2020-12)."""

T = TypeVar("T")

MAX_DEPTH = 64
MAX_INTEGER_BITS = 8192
"""Beyond about 4,300 decimal digits Python itself refuses to write an integer as text."""
_UTF16 = "utf-16-le"
EXACT_IN_A_DOUBLE = 2**53 - 1
TYPE_NAMES: Mapping[type[object], str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
ALL_TYPES = frozenset({*TYPE_NAMES.values(), "null"})
CONTAINERS = frozenset({"object", "array"})


def fit_to_schema(schema: Schema, value: T) -> T:
    """Return `value` with what some hosts write in another form in the form that the schema admits.

    Some send objects, arrays and what is in them as JSON text, and integers with a fraction of zero. A value stays as
    it is wherever the schema admits it so, and wherever it would be a guess: an integer that a double may not hold
    exactly has lost its digits already.

    Args:
        schema: A JSON Schema (2020-12); local references only.
        value: The instance.
    """
    return cast("T", _fitted(schema, value, schema))


def jsonable(value: object) -> Json:
    """Return a JSON value for any Python value; never raises, because the effect it reports has happened.

    NaN and the infinities become null, bytes base64, and what has no form in JSON its `repr`. Lone surrogates stay:
    JSON has escapes for them, and file names hold them.
    """
    return Former().form(value)


def repaired(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 cannot carry, as the replacement character."""
    return text if text.isascii() else text.encode(_UTF16, "surrogatepass").decode(_UTF16, "replace")


def is_text(value: Json) -> bool:
    """Return whether UTF-8 can carry all text of a JSON value: pydantic's JSON reader refuses lone surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    return text.isascii() or repaired(text) == text


def _fitted(schema: object, value: object, root: Schema) -> object:
    found = _resolve(schema, root)
    if found is None:
        return value
    if isinstance(value, str):
        value = _decoded(value, _admitted(found, root, MAX_DEPTH))
    elif isinstance(value, float):
        return _whole(value, _admitted(found, root, MAX_DEPTH))
    wanted = _type_name(value)
    if wanted not in CONTAINERS:
        return value
    fitting = [branch for branch in _branches(found) if wanted in _admitted(branch, root, MAX_DEPTH)]
    if len(fitting) == 1:
        return _fitted(fitting[0], value, root)
    if isinstance(value, dict):
        named, other = found.get("properties", {}), found.get("additionalProperties")
        members = cast("dict[str, object]", value)
        return {key: _fitted(named.get(key, other), member, root) for key, member in members.items()}
    first, rest = found.get("prefixItems", ()), found.get("items")
    return [
        _fitted(first[place] if place < len(first) else rest, item, root)
        for place, item in enumerate(cast("list[object]", value))
    ]


def _decoded(text: str, admitted: frozenset[str]) -> object:
    if "string" in admitted or not admitted & CONTAINERS:
        return text
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if _type_name(value) in admitted & CONTAINERS else text


def _whole(number: float, admitted: frozenset[str]) -> float:
    wanted = "integer" in admitted and "number" not in admitted
    return int(number) if wanted and number.is_integer() and abs(number) <= EXACT_IN_A_DOUBLE else number


def _admitted(schema: object, root: Schema, depth: int) -> frozenset[str]:
    """Return the JSON types a schema admits; all of them where that cannot be told."""
    found = _resolve(schema, root)
    if found is None or depth == 0:
        return ALL_TYPES
    admitted = ALL_TYPES
    if "type" in found:
        declared: str | list[str] = found["type"]
        admitted &= frozenset([declared] if isinstance(declared, str) else declared)
    if "const" in found:
        admitted &= {_type_name(found["const"])}
    if "enum" in found:
        admitted &= frozenset(map(_type_name, found["enum"]))
    if branches := _branches(found):
        admitted &= frozenset[str]().union(*(_admitted(branch, root, depth - 1) for branch in branches))
    for part in cast("list[object]", found.get("allOf", [])):
        admitted &= _admitted(part, root, depth - 1)
    return admitted


def _branches(schema: Schema) -> list[object]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _type_name(value: object) -> str:
    return TYPE_NAMES.get(type(value), "null")


def _resolve(schema: object, root: Schema) -> Schema | None:
    """Follow local references; a chain that leads nowhere or round in a circle, and a boolean schema, yield None."""
    for _ in range(MAX_DEPTH):
        if not isinstance(schema, dict):
            return None
        found = cast("dict[str, Any]", schema)
        if "$ref" not in found:
            return found
        schema = root
        for name in filter(None, str(found["$ref"]).removeprefix("#").split("/")):
            members = cast("dict[str, object]", schema) if isinstance(schema, dict) else {}
            schema = members.get(name.replace("~1", "/").replace("~0", "~"))
    return None


@dataclass(slots=True)
class Former:
    """Gives values their form in JSON, and keeps in mind whether all of them can be told from it."""

    exact: bool = True

    def form(self, value: object, depth: int = 0) -> Json:
        """Return a JSON value for any Python value; never raises."""
        if value is None or type(value) in (bool, int, float, str):
            return self._scalar(value)
        if depth > MAX_DEPTH:
            return self._shown(value)
        if type(value) is dict:
            members = cast("dict[object, object]", value)
            formed = {self._key(key): self.form(member, depth + 1) for key, member in members.items()}
            self.exact = self.exact and len(formed) == len(members)
            return formed
        if type(value) in (list, tuple, set, frozenset):
            return [self.form(item, depth + 1) for item in cast("Iterable[object]", value)]
        try:
            plain = to_jsonable_python(value, fallback=self._shown, inf_nan_mode="constants", bytes_mode="base64")
        except Exception:  # noqa: BLE001  # the author's serialisers may raise anything, and the effect has happened
            plain = self._shown(value)
        return self.form(plain, depth + 1)

    def _scalar(self, value: object) -> Json:
        formed: Json
        if isinstance(value, float):
            formed = value if math.isfinite(value) else None
        elif isinstance(value, str):
            # JSON text joins a pair of surrogates, and keeps a lone one.
            formed = value if value.isascii() else value.encode(_UTF16, "surrogatepass").decode(_UTF16, "surrogatepass")
        elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            formed = hex(value)
        else:
            formed = cast("bool | int | None", value)
        self.exact = self.exact and formed == value
        return formed

    def _key(self, key: object) -> str:
        formed = self.form(key)
        return formed if isinstance(formed, str) else json.dumps(formed)

    def _shown(self, value: object) -> str:
        self.exact = False
        try:
            return repr(value)[:1000]
        except Exception:  # noqa: BLE001  # see above
            return f"<{type(value).__name__}>"
