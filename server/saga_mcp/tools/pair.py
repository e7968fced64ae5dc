"""A pair as it is frozen at an intent: what the tool is, what undoes it, and under which limits (SEMANTICS.md S6.1).

Immutable and JSON through and through: its hash names the row that the log keeps for ever, so that an undo that runs
after an upgrade or a changed config is the undo that was promised. Python pairs and pairs from the config end in the
same shape; a Python undo's parameters are plain paths such as `${args.customer}`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

from saga_mcp.domain.values import JsonObject, JsonValue, Kind, PartAction, Urgency
from saga_tools import Retry
from saga_tools.server import UNDO_RETRY

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ONCE = Retry()


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
    target_id: str = ""
    """Where `tool` acted when this was frozen (S1.2)."""
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
    retry: Retry = _ONCE
    timeout_s: float = 30.0
    hard_deadline_s: float = 300.0
    settle_s: float = 5.0
    target_id: str = ""
    host: str = ""

    def to_json(self) -> JsonObject:
        """The content of the pair's row."""
        return cast("JsonObject", asdict(self))

    @classmethod
    def of_row(cls, name: str, content: JsonObject) -> Self:
        """The pair of a row.

        What a newer version wrote is not read halfway: a key that is not known here could be what makes its undo safe.

        Args:
            name: the hash that names the row.
            content: what it holds.

        Raises:
            PairUnreadable: it was written by another version, or is damaged.
        """
        if _hash(content) != name:
            raise PairUnreadable(name, "it is not what was stored")
        try:
            return cls(**_known(cls, content, kind=Kind, retry=_retry, undo=_entries))
        except (KeyError, TypeError, ValueError) as error:
            raise PairUnreadable(name, str(error)) from error

    @cached_property
    def hash(self) -> str:
        """Names the row: equal content, equal name."""
        return _hash(self.to_json())


class PairUnreadable(Exception):
    """A frozen pair that this version cannot read: nothing may be sent for its steps."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"pair {name} cannot be read by this version of saga-mcp: {reason}; upgrade it, then retry")


def _hash(content: JsonObject) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _known(cls: type[DataclassInstance], content: object, **readers: Callable[[Any], object]) -> dict[str, Any]:
    """The fields of a dataclass; one that an older version did not write keeps its default."""
    data = cast("dict[str, Any]", content)
    if unknown := sorted(data.keys() - {each.name for each in fields(cls)}):
        raise ValueError(f"it does not know {', '.join(unknown)}")
    return {name: readers[name](value) if name in readers else value for name, value in data.items()}


def _retry(content: object) -> Retry:
    return Retry(**_known(Retry, content))


def _entries(content: list[object]) -> tuple[UndoEntry, ...]:
    read = {"action": PartAction, "urgency": Urgency, "retry": _retry}
    return tuple(UndoEntry(**_known(UndoEntry, entry, **read)) for entry in content)
