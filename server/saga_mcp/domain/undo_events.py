"""Events of a step's undo."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from saga_mcp.domain.frozen import PAYLOAD
from saga_mcp.domain.values import Effect, ItemKind, SettledBy, Urgency


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoIntended:
    """An undo attempt is about to be sent."""

    step: int
    part: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoSucceeded:
    """A part is undone, was already undone, is left as configured, or had nothing to undo."""

    step: int
    part: str
    unneeded: bool = False
    """Nothing was sent: the guard found the world as it was before the step (S6.7)."""
    answer: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """An undo waits for an upstream that is down, or lets nothing in."""

    upstream: str
    """Its name in the config."""
    since: float
    """Wall clock when it was first not reached, in seconds since the epoch; for people."""
    again_at: float
    """Wall clock of the next try, unless it comes up before that."""
    waited_s: float = 0.0
    """How long of it was watched, over all processes: what counts against the time that it may take (S6.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFailed:
    """An undo attempt ended without success; another may follow."""

    step: int
    part: str
    effect: Effect
    counted: bool = True
    """False: the upstream could not be reached, which costs time, not attempts (S6.5)."""
    outage: Outage | None = None
    """What is waited for then, where that is known."""
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFellInDoubt:
    """It is not known whether an undo attempt took effect."""

    step: int
    part: str
    reason: str
    running: bool = False
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRunEnded:
    """An in-doubt undo attempt no longer runs; its outcome is still unknown."""

    step: int
    part: str
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOverdue:
    """An undo that cannot be stopped ran past its hard deadline: a person should look (S3.3)."""

    step: int
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoProbesEnded:
    """Probing an in-doubt undo gave no verdict."""

    step: int
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoSettled:
    """A late answer or a probe settled whether an in-doubt undo took effect."""

    step: int
    part: str
    done: bool
    by: SettledBy
    answer: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoParked:
    """An undo part waits for a person: dead letter, manual undo, guard conflict, changed target."""

    step: int
    part: str
    item: ItemKind
    urgency: Urgency = Urgency.NORMAL
    message: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResumed:
    """A person let a waiting undo go on, with fresh attempts and the same key."""

    step: int
    by: str
    overwrite: bool = False
    """Go on although the guard found a conflict."""
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResolved:
    """A named person undid the step by hand."""

    step: int
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


UndoEvent: TypeAlias = (
    UndoIntended
    | UndoSucceeded
    | UndoFailed
    | UndoFellInDoubt
    | UndoRunEnded
    | UndoOverdue
    | UndoProbesEnded
    | UndoSettled
    | UndoParked
    | UndoResumed
    | UndoResolved
)
