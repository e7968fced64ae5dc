"""One example of every event, with nothing left at its default.

`python -m tests.log.golden` adds the examples of new event types to the file.

What stands in `tests/golden/events.jsonl` is a log that somebody has on disk: lines are added, never changed.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from saga_mcp.domain.events import Event
from saga_mcp.domain.values import JsonObject
from saga_mcp.log.codec import encode

EVENTS = Path(__file__).parents[1] / "golden" / "events.jsonl"

EVENT_TYPES: tuple[type, ...] = tuple(cls for family in get_args(Event) for cls in (get_args(family) or (family,)))

_JSON: JsonObject = {"id": 2**63 + 1, "text": "caf\u00e9 \u2028", "list": [1.5, None, True], "empty": {}}


def example(cls: Any) -> Any:  # noqa: ANN401 - any dataclass in, an object of it out
    """A value of a dataclass whose every field differs from its default."""
    hints = get_type_hints(cls)
    return cls(**{field.name: _example(hints[field.name], field.name) for field in fields(cls)})


def _example(hint: Any, name: str) -> Any:  # noqa: ANN401 - any type hint in, a value of it out
    if get_origin(hint) in {Union, UnionType}:
        arms = [arm for arm in get_args(hint) if arm is not NoneType]
        return _example(arms[0], name) if len(arms) == 1 else dict(_JSON)
    if get_origin(hint) is tuple:
        return (_example(get_args(hint)[0], name), _example(get_args(hint)[0], name))
    if get_origin(hint) is dict:
        return dict(_JSON)
    if is_dataclass(hint):
        return example(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[-1]
    return {str: f"some {name}", int: 2**62 + 1, bool: True, float: 0.25}[hint]


def line(event: Event) -> str:
    stored = encode(event)
    return json.dumps(
        {
            "type": stored.type,
            "version": stored.version,
            "facts": json.loads(stored.facts),
            "payload": None if stored.payload is None else json.loads(stored.payload),
        }
    )


def main() -> None:
    known = EVENTS.read_text(encoding="utf-8").splitlines() if EVENTS.exists() else []
    types = {json.loads(one)["type"] for one in known}
    new = [line(cast("Event", example(cls))) for cls in EVENT_TYPES if cls.__name__ not in types]
    EVENTS.write_text("".join(f"{one}\n" for one in (*known, *new)), encoding="utf-8")


if __name__ == "__main__":
    main()
