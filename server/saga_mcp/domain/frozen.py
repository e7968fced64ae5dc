"""What a step freezes for its undo: the parts of it, and the mark of values of the outside world (S6.1, S11.4)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from types import MappingProxyType

from saga_mcp.domain.values import JsonObject, JsonValue, PartAction, Urgency

PAYLOAD = MappingProxyType({"payload": True})
"""Marks a field that holds values of the outside world: stored in a column of its own, no part of any decision."""


def pair_name(content: JsonObject) -> str:
    """The name of a stored pair, which is a hash of its content: equal content, equal name."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLimits:
    """Under which limits a part is attempted that a running call registered; the pair's own have theirs in its row."""

    timeout_s: float
    attempts: int
    first_delay_s: float
    max_delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSpec:
    """One part of a step's undo, bound and frozen (S6.1, S6.2)."""

    action: PartAction
    tool: str = ""
    """Name of the undo tool or function, resolved again when the undo is due."""
    entry: int = 0
    """Which entry of the pair's undo list this part came from."""
    idempotent: bool = False
    has_probe: bool = False
    outlives_us: bool = False
    """Its call may go on where its connection, its process and we have ended."""
    limits: PartLimits | None = None
    """None: those of its entry in the pair."""
    urgency: Urgency = Urgency.NORMAL
    args: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)
    late: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)
    """Arguments that only the moment of sending knows, as the pair has them."""
    item: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    """The item of `each` that the part was made for, where something at that moment may look at it."""
    message: str = field(default="", compare=False, metadata=PAYLOAD)
    """What a person reads of a manual part or of a residue."""
    secrets: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    """What the arguments repeat of the call's secrets that are stored nowhere else: a list of texts and numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundUndo:
    """A step's undo as its outcome freezes it, or why it cannot be built (S6.1)."""

    parts: tuple[PartSpec, ...] | None = ()
    """None: it cannot be built."""
    build_error: str = ""
