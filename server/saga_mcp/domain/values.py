"""The words of the state machine as types (DESIGN.md section 1, SEMANTICS.md S14.1).

Nothing here decides anything; the enums and aliases are shared by every layer above.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]


class Phase(StrEnum):
    """Where a saga stands. Moved by events only (S2.1)."""

    ACTIVE = "active"
    COMPENSATING = "compensating"
    COMMITTED = "committed"
    COMPENSATED = "compensated"


FINAL_PHASES = frozenset({Phase.COMMITTED, Phase.COMPENSATED})


class Kind(StrEnum):
    """What a tool does to its saga's ability to roll back (Richardson 2018, ch. 4)."""

    READ_ONLY = "read_only"
    COMPENSABLE = "compensable"
    PIVOT = "pivot"
    RETRIABLE = "retriable"


class StepState(StrEnum):
    """What is known of a step's effect, and how far its undo has come."""

    AWAITING_APPROVAL = "awaiting_approval"
    CANCELLED = "cancelled"
    """Ended before its intent: nothing was sent."""
    INTENDED = "intended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Known to have had no effect."""
    IN_DOUBT = "in_doubt"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    EXEMPT = "exempt"
    """Left as it is by a named person."""


SETTLED_STEPS = frozenset({StepState.CANCELLED, StepState.FAILED, StepState.COMPENSATED, StepState.EXEMPT})
"""States in which a roll-back has nothing left to do for the step."""


class PartState(StrEnum):
    """How far one part of a step's undo has come."""

    PENDING = "pending"
    INTENDED = "intended"
    DONE = "done"
    UNDO_IN_DOUBT = "undo_in_doubt"
    WAITING = "waiting"
    """An attention item holds it."""


class PartAction(StrEnum):
    """What an undo part consists of (S6.2)."""

    CALL = "call"
    MANUAL = "manual"
    """Only a person can do it: automatic compensation halts there."""
    LEAVE = "leave"
    """Residue by decision of the config."""
    NOTHING = "nothing"


class Effect(StrEnum):
    """What an unsuccessful attempt is known to have done."""

    NONE = "none"
    UNKNOWN = "unknown"


class OnError(StrEnum):
    """What a failed step means for its saga (S4)."""

    ABORT = "abort"
    HOLD = "hold"


class OnIdle(StrEnum):
    """What becomes of a saga that was forgotten (S9.4)."""

    FLAG = "flag"
    ABORT = "abort"
    COMMIT = "commit"


class OnUndoFailure(StrEnum):
    """Whether a stuck undo halts the older ones (S5.4)."""

    HALT = "halt"
    CONTINUE = "continue"


class Cancelled(StrEnum):
    """Why a stored call ended before its intent (S9.1)."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    ABORTED = "aborted"
    REFUSED = "refused"
    """It was allowed, and by then could not be sent."""


class ItemKind(StrEnum):
    """What waits for a person (S14.3)."""

    IN_DOUBT = "in_doubt"
    UNDO_IN_DOUBT = "undo_in_doubt"
    DEAD_LETTER = "dead_letter"
    TARGET_CHANGED = "target_changed"
    NEEDS_HOST = "needs_host"
    MANUAL_UNDO = "manual_undo"
    CANNOT_BUILD = "cannot_build"
    GUARD_CONFLICT = "guard_conflict"
    RETRIABLE_EXHAUSTED = "retriable_exhausted"
    LATE_EFFECT = "late_effect"
    INVARIANT = "invariant"
    APPROVAL = "approval"
    IDLE = "idle"
    QUARANTINE = "quarantine"
    OUTBOX_PARKED = "outbox_parked"


class Urgency(StrEnum):
    """How soon a person should look."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class SettledBy(StrEnum):
    """Who settled a doubt (S3.6)."""

    LATE_ANSWER = "late_answer"
    PROBE = "probe"
    PERSON = "person"


WHOLE_SAGA = 0
"""The `target` of an abort that undoes everything; any other target is a save-point's seq."""


def bytes_of(value: JsonValue) -> int:
    """Bytes that a value holds: of its texts in UTF-8, and of everything else as it is written in JSON.

    What JSON needs to write a text down (quotes, escapes) is no part of it, nor are brackets and commas.
    """
    total, waiting = 0, [value]
    while waiting:  # no recursion: whoever sent it may nest as deep as a parser goes
        match waiting.pop():
            case str() as text:
                total += len(text.encode(errors="surrogatepass"))
            case dict() as members:
                waiting += [*members, *members.values()]
            case list() as entries:
                waiting += entries
            case None | bool() as word:
                total += 5 if word is False else 4
            case int() | float() as number:
                total += len(repr(number))
    return total
