"""JSON values on their way into and out of an expression.

Plain paths are followed here, in Python, because the CEL engine turns integers outside int64 into doubles. For the
same reason whatever is handed to the engine is weighed first and refused if it holds such an integer (the sound and
simple rule: only what an expression names is handed over, so an unrelated large number elsewhere does no harm).
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.binding.errors import Missing, Mistyped, Unfit

Path: TypeAlias = tuple[str | int, ...]
"""A root variable, then members and list indexes: `("result", "data", 0, "id")`."""

Needs: TypeAlias = "Mapping[str, Needs | None]"
"""Members by name, and what is needed below each; None is everything."""

MAX_INPUT_BYTES = 256_000
"""S11.3. Of everything one expression names, as JSON text; plain paths are not evaluated and not limited."""
MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Of the long strings in `IMAGES`, where an expression only searches them, which takes time with their length and not
more: what is captured may be 1 MiB, is there as text and as result, and once more as `now`."""
IMAGES = frozenset({"capture", "after", "now", "read"})
"""Variables that hold what was read for a step; how much, its pair limits."""
LONG_TEXT = 1_000
"""In characters; shorter strings count with everything else."""
MAX_DEPTH = 64
"""S11.3, in containers."""
MAX_LOOP_ITEMS = 2_000
"""In any list or object that an expression with a comprehension sees. The engine's `map` and `filter` copy their result
for every item (measured: 20,000 items, well under the byte limit, hold the thread for 8 s; 2,000 take 0.08 s)."""
_INT64 = range(-(2**63), 2**63)


def show(path: Path) -> str:
    """Return a path as it is written in an expression."""
    head, *rest = path
    return str(head) + "".join(
        f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{part!r}]" for part in rest
    )


def follow(path: Path, values: Mapping[str, JsonValue]) -> JsonValue:
    """Return what a plain path leads to, untouched.

    Raises:
        Missing: A member is not there.
        Mistyped: What it goes through has no members.
        Unfit: The path leads nowhere for another reason. Each names the part.
    """
    root = cast("str", path[0])
    if root not in values:
        raise Unfit(f"{root} is not known here")
    value = values[root]
    for depth, part in enumerate(path[1:], start=1):
        if isinstance(part, str) and isinstance(value, dict):
            if part not in value:
                raise Missing(f"{show(path[: depth + 1])} is missing")
            value = value[part]
        elif isinstance(part, int) and isinstance(value, list):
            if part >= len(value):
                raise Unfit(f"{show(path[: depth + 1])} is beyond the end of the list")
            value = value[part]
        else:
            wanted = "an object" if isinstance(part, str) else "a list"
            raise Mistyped(f"{show(path[:depth])} is {_kind(value)}, not {wanted}")
    return value


def needs_of(paths: Iterable[Path]) -> Needs:
    """Return what an expression that names `paths` has to be given; a list is always given whole."""
    needs: dict[str, Needs | None] = {}
    for path in paths:
        level = needs
        names = [
            part for part in itertools.takewhile(lambda part: isinstance(part, str), path) if isinstance(part, str)
        ]
        for name in names[:-1]:
            below = level.setdefault(name, {})
            if below is None:
                break
            level = cast("dict[str, Needs | None]", below)
        else:
            level[names[-1]] = None
    return needs


def select(
    needs: Needs, values: Mapping[str, JsonValue], *, loops: bool, searches: bool = False
) -> dict[str, JsonValue]:
    """Return the part of `values` that an expression needs, weighed and fit for the CEL engine.

    A member that is absent stays absent, so `has()` sees it so.

    Args:
        needs: What the expression names.
        values: The variables by name.
        loops: The expression takes time with the square of its items: `MAX_LOOP_ITEMS` holds.
        searches: The expression only searches texts: `MAX_TEXT_BYTES` holds for long ones in `IMAGES`.

    Raises:
        Unfit: A root is unknown, or the part is too large, too deep, or holds an integer outside int64.
    """
    scale = _Scale(MAX_INPUT_BYTES, MAX_TEXT_BYTES)

    def narrow(source: JsonValue, below: Needs | None, *, texts: bool) -> JsonValue:
        if below is None or not isinstance(source, dict):
            scale.weigh(source, texts=texts)
            if loops:
                refuse_many(source)
            return source
        return {name: narrow(source[name], deeper, texts=texts) for name, deeper in below.items() if name in source}

    for root in needs:
        if root not in values:
            raise Unfit(f"{root} is not known here")
    return {root: narrow(values[root], below, texts=searches and root in IMAGES) for root, below in needs.items()}


def weigh(value: JsonValue) -> None:
    """Let what a function made pass only if an expression may be given as much.

    Raises:
        Unfit: It is too heavy or too deep, holds an integer outside int64, or is no JSON value.
    """
    _Scale(MAX_INPUT_BYTES, 0).weigh(value, texts=False)


@dataclass(slots=True)
class _Scale:
    """What may still be named: bytes of JSON text, and of long strings where those are counted apart."""

    left: int
    texts_left: int

    def weigh(self, value: JsonValue, *, texts: bool) -> None:
        """Take the weight of `value` off what is left.

        Raises:
            Unfit: It is too heavy or too deep, holds an integer outside int64, or is no JSON value.
        """
        pending: list[tuple[object, int]] = [(value, 0)]
        while pending:
            item, depth = pending.pop()
            self._take(item, texts=texts)
            if isinstance(item, dict):
                mapping = cast("dict[object, object]", item)
                for key in mapping:
                    self._take(key, texts=False)
                self.left -= 2 * len(mapping)
                pending += [(child, depth + 1) for child in mapping.values()]
            elif isinstance(item, list):
                children = cast("list[object]", item)
                self.left -= len(children)
                pending += [(child, depth + 1) for child in children]
            if depth + isinstance(item, dict | list) > MAX_DEPTH:
                raise Unfit(f"what it names is nested deeper than {MAX_DEPTH} levels")
            if self.left < 0:
                raise Unfit(f"what it names is larger than {MAX_INPUT_BYTES // 1000} kB")
            if self.texts_left < 0:
                raise Unfit(f"the texts it names are larger than {MAX_TEXT_BYTES // 1024 // 1024} MiB")

    def _take(self, item: object, *, texts: bool) -> None:
        weight = _weight_of(item)
        if texts and isinstance(item, str) and len(item) >= LONG_TEXT:
            self.texts_left -= weight
        else:
            self.left -= weight


def refuse_many(value: object) -> None:
    """Let no list or object of more than `MAX_LOOP_ITEMS` pass.

    Raises:
        Unfit: There is one.
    """
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list | dict):
            children = cast("Collection[object]", item.values() if isinstance(item, dict) else item)
            if len(children) > MAX_LOOP_ITEMS:
                raise Unfit(f"a comprehension sees more than {MAX_LOOP_ITEMS} items")
            pending += children


def exact(value: JsonValue) -> JsonValue:
    """Return `value` itself if a plain path may hand it on.

    Raises:
        Unfit: It holds NaN or an infinity, or is nested too deep.
    """
    if isinstance(value, str | int | None):
        return value
    pending: list[tuple[JsonValue, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise Unfit("it holds NaN or an infinity, which JSON does not have")
        if isinstance(item, dict | list):
            if depth >= MAX_DEPTH:
                raise Unfit(f"it is nested deeper than {MAX_DEPTH} levels")
            children = item.values() if isinstance(item, dict) else item
            pending += [(child, depth + 1) for child in children]
    return value


def as_json(value: object) -> JsonValue:
    """Return what the CEL engine answered as a JSON value.

    Members come back sorted by name: the engine's maps have no order of their own, and the same inputs must give the
    same text.

    Raises:
        Mistyped: JSON has no such value.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unfit("the result is NaN or infinite, which JSON does not have")
        return value
    if isinstance(value, list):
        return [as_json(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        mapping = cast("dict[object, object]", value)
        if not all(isinstance(key, str) for key in mapping):
            raise Mistyped("the result is a map with keys that are not strings")
        named = cast("dict[str, object]", mapping)
        return {key: as_json(named[key]) for key in sorted(named)}
    if type(value).__name__ == "OptionalValue":
        raise Mistyped("the result is an optional; take its .value() or .orValue(...)")
    raise Mistyped(f"the result is of type {_kind(value)}, which JSON does not have; convert it with string(...)")


def as_text(value: JsonValue) -> str:
    """Return how a value stands inside longer text: JSON, but strings bare.

    Raises:
        Unfit: An integer is longer than Python writes out.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise Unfit("an integer has too many digits to be written as text") from None


def _weight_of(item: object) -> int:
    """Return the length of a scalar's JSON text (escapes aside), or of a container's brackets."""
    if isinstance(item, str):
        return 2 + (len(item) if item.isascii() else len(item.encode(errors="surrogatepass")))
    if isinstance(item, int) and item not in _INT64:
        raise Unfit("what it names holds an integer outside 64 bits, which only a plain path keeps exact")
    if item is None or isinstance(item, int | float):
        return len(repr(item))
    if isinstance(item, dict | list):
        return 2
    raise Unfit(f"what it names holds a {type(item).__name__}, which is not a JSON value")


def _kind(value: object) -> str:
    names = {
        "NoneType": "null",
        "str": "a string",
        "bool": "a boolean",
        "int": "a number",
        "float": "a number",
        "dict": "an object",
        "list": "a list",
        "datetime": "timestamp",
        "timedelta": "duration",
    }
    return names.get(type(value).__name__, type(value).__name__)
