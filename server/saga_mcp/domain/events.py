"""The facts a saga log stores: one frozen dataclass per event, named in the past tense (S14.1).

A saga is the fold of these. Each event states one fact that was durable before anything was done about it. Fields
marked with `PAYLOAD` hold values of the outside world (arguments, results, texts); the log keeps them in columns of
their own (S11.4), and the machine never decides anything on them, which is why they take no part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from saga_mcp.domain.values import (
    WHOLE_SAGA,
    Effect,
    ItemKind,
    JsonObject,
    JsonValue,
    Kind,
    OnError,
    OnUndoFailure,
    PartAction,
    SettledBy,
    Urgency,
)

PAYLOAD = MappingProxyType({"payload": True})


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
    urgency: Urgency = Urgency.NORMAL
    args: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)
    message: str = field(default="", compare=False, metadata=PAYLOAD)
    """What a person reads of a manual part or of a residue."""


# --- the saga ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaOpened:
    """A saga began. Its policies are frozen here: a changed config affects new sagas only."""

    realm: str
    driver: str
    """Owner id of the process that drives it (S3.5)."""
    on_error: OnError = OnError.ABORT
    on_undo_failure: OnUndoFailure = OnUndoFailure.HALT
    caller: str = ""
    conversation: str = ""
    key: str = ""
    """The caller's key of `saga_begin` (S8.4)."""
    purpose: str = ""
    implicit: bool = False
    """Opened by a governed call without `saga_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaClaimed:
    """Another process took over driving this saga to rest (S3.5)."""

    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSet:
    """The agent set a mark (Garcia-Molina & Salem 1987); an existing name moves (S7.3)."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaCommitted:
    """Everything is kept."""

    by: str
    accepted: tuple[int, ...] = ()
    """Failed steps the caller acknowledged (S4.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRequested:
    """The saga closed to new steps; its steps after `target` are to be undone (S5.1)."""

    cause: str
    target: int = WHOLE_SAGA
    by: str = ""
    reason: str = ""
    driver: str = ""
    """Owner id of the process that will drive the rollback; empty: whoever is alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortDeferred:
    """An abort was asked for while a pivot was unsettled: it waits for the pivot's outcome (S7.1)."""

    cause: str
    target: int = WHOLE_SAGA
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackFinished:
    """Everything after the target is undone, known absent, left as configured, or exempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackReopened:
    """An effect landed after its undo ran: it is to be undone again (S5.5)."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantViolated:
    """A rule over the results did not hold after `step` (S9.3)."""

    name: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantExempted:
    """A person accepted a violation after the pivot."""

    name: str
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaIdled:
    """Nothing happened for `idle_flag_s` of observed time (S9.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecorded:
    """A read-only call was audited (S11.2)."""

    tool: str
    is_error: bool = False
    args: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What a step is, as frozen at its intent (S6.1); also what an approval is bound to (S9.1)."""

    tool: str
    """Name of the tool in the config, e.g. `travel.charge`."""
    kind: Kind
    pair_hash: str = ""
    target_id: str = ""
    host: str = ""
    """Host id of a host-scoped tool (S1.3), else empty."""
    idempotent: bool = False
    has_probe: bool = False
    safe_if_absent: bool = False
    step_key: str = ""
    """The agent's name for the call (S8.2)."""
    call_id: str = ""
    """The client's own id of the call, where it sends one (S8.3)."""
    args: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAwaitingApproval:
    """A call was stored and a person is asked; nothing was sent."""

    step: int
    plan: StepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class StepApproved:
    """A person allowed exactly this stored call, once."""

    step: int
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCancelled:
    """A stored call ended before its intent: rejected, expired or aborted."""

    step: int
    why: str
    by: str = ""
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepIntended:
    """The first attempt is about to be sent: durable before the first byte (DESIGN.md rule 1)."""

    step: int
    plan: StepPlan
    owner: str
    capture: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttempted:
    """A further attempt is about to be sent, with the same key."""

    step: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttemptEnded:
    """An attempt ended without success, and another may follow (S3.2)."""

    step: int
    effect: Effect
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRegistered:
    """A running call registered the undo of one of its parts (S6.2)."""

    step: int
    part: PartSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSucceeded:
    """The forward action took effect; its undo is bound, or cannot be."""

    step: int
    parts: tuple[PartSpec, ...] | None = ()
    """None: the undo could not be built; `build_error` says why."""
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    result: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """The forward action is known to have had no effect."""

    step: int
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFellInDoubt:
    """The outcome of the forward action is not known (DESIGN.md rule 2)."""

    step: int
    reason: str
    """timeout | error | owner_lost | transport_lost | invalid_answer."""
    running: bool = False
    """The call has not ended: only the wait for it has (S3.3)."""
    end_known: bool = False
    """It answered, or ran in a process proved dead."""
    parts: tuple[PartSpec, ...] | None = ()
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRunEnded:
    """An in-doubt step no longer runs, and its outcome is still unknown."""

    step: int
    end_known: bool
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOverdue:
    """A step that cannot be stopped ran past its hard deadline (S3.3)."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProbesEnded:
    """Probing gave no verdict in the time it has (S4.2)."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettled:
    """A late answer, a probe or a person settled what the step did (S3.6). Legal in every phase."""

    step: int
    landed: bool
    by: SettledBy
    person: str = ""
    parts: tuple[PartSpec, ...] | None = ()
    build_error: str = field(default="", compare=False, metadata=PAYLOAD)
    result: JsonValue = field(default=None, compare=False, metadata=PAYLOAD)
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExhausted:
    """A retriable step used up its attempts (S7.2)."""

    step: int
    error: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResumed:
    """A person let a retriable step try again."""

    step: int
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExempted:
    """A named person decided that the step's effect, if any, stays."""

    step: int
    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLost:
    """The answer of this step is known not to have reached the caller (S8.1)."""

    step: int


# --- undo -------------------------------------------------------------------------------------------------------------


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
    answer: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFailed:
    """An undo attempt ended without success; another may follow."""

    step: int
    part: str
    effect: Effect
    counted: bool = True
    """False: the upstream could not be reached, which costs time, not attempts (S6.5)."""
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


SagaEvent: TypeAlias = (
    SagaOpened
    | SagaClaimed
    | SavepointSet
    | SagaCommitted
    | AbortRequested
    | AbortDeferred
    | RollbackFinished
    | RollbackReopened
    | InvariantViolated
    | InvariantExempted
    | SagaIdled
    | ReadRecorded
)
StepEvent: TypeAlias = (
    StepAwaitingApproval
    | StepApproved
    | StepCancelled
    | StepIntended
    | StepAttempted
    | StepAttemptEnded
    | UndoRegistered
    | StepSucceeded
    | StepFailed
    | StepFellInDoubt
    | StepRunEnded
    | StepOverdue
    | StepProbesEnded
    | StepSettled
    | StepExhausted
    | StepResumed
    | StepExempted
    | ReplyLost
)
UndoEvent: TypeAlias = (
    UndoIntended
    | UndoSucceeded
    | UndoFailed
    | UndoFellInDoubt
    | UndoRunEnded
    | UndoProbesEnded
    | UndoSettled
    | UndoParked
    | UndoResumed
    | UndoResolved
)
Event: TypeAlias = SagaEvent | StepEvent | UndoEvent
