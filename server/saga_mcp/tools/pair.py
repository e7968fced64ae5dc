"""A pair as it is frozen at an intent: what the tool is, what undoes it, and under which limits (SEMANTICS.md S6.1).

Immutable and JSON through and through: its hash names the row that the log keeps for ever, so that an undo that runs
after an upgrade or a changed config is the undo that was promised. Python pairs and pairs from the config end in the
same shape; a Python undo's parameters are plain paths such as `${args.customer}`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Self, cast

from saga_mcp.domain.values import JsonObject, JsonValue, Kind, PartAction, Urgency


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and how far apart. Delays double from the first to the longest, with full jitter (S6.5)."""

    attempts: int = 1
    """All attempts, the first included."""
    first_delay_s: float = 0.5
    max_delay_s: float = 20.0

    def delay_s(self, attempts_made: int) -> float:
        """The longest wait before the next attempt; the caller draws between zero and this.

        Args:
            attempts_made: how many attempts were made, at least 1.
        """
        doubled: float = self.first_delay_s * 2.0 ** min(attempts_made - 1, 62)
        return min(doubled, self.max_delay_s)


UNDO_RETRY = Retry(attempts=8, first_delay_s=1.0, max_delay_s=300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoEntry:
    """One entry of an undo list, before it is bound: `args`, `when`, `each`, `message` may hold `${...}` templates."""

    action: PartAction = PartAction.CALL
    tool: str = ""
    args: JsonObject = field(default_factory=dict[str, JsonValue])
    when: str | bool = True
    each: str = ""
    """An expression for a list: one part per element, which the arguments see as `item`."""
    message: str = ""
    urgency: Urgency = Urgency.NORMAL
    idempotent: bool = False
    needs_result: bool = False
    """Never built without a known result, whatever its arguments name."""
    timeout_s: float = 30.0
    retry: Retry = UNDO_RETRY


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One governed tool and everything that its steps will need later."""

    tool: str
    """Name in the config, e.g. `travel.charge`."""
    kind: Kind
    undo: tuple[UndoEntry, ...] = ()
    safe_if_absent: bool = False
    idempotent: bool = False
    has_probe: bool = False
    retry: Retry = Retry()
    timeout_s: float = 30.0
    hard_deadline_s: float = 300.0
    settle_s: float = 5.0
    target_id: str = ""
    host: str = ""

    def to_json(self) -> JsonObject:
        """The content of the pair's row."""
        return cast("JsonObject", asdict(self))

    @classmethod
    def from_json(cls, content: JsonObject) -> Self:
        """The pair of a row. Unknown keys are left out, so that a newer row can be read.

        Raises:
            KeyError, TypeError, ValueError: the row is damaged.
        """
        data = cast("dict[str, Any]", content)
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        known["kind"] = Kind(known["kind"])
        known["retry"] = Retry(**known["retry"])
        known["undo"] = tuple(_entry(entry) for entry in known["undo"])
        return cls(**known)

    @cached_property
    def hash(self) -> str:
        """Names the row: equal content, equal name."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _entry(data: dict[str, Any]) -> UndoEntry:
    known = {name: data[name] for name in UndoEntry.__slots__ if name in data}
    known["action"] = PartAction(known["action"])
    known["urgency"] = Urgency(known["urgency"])
    known["retry"] = Retry(**known["retry"])
    return UndoEntry(**known)
