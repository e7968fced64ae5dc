"""Events of the saga itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from saga_mcp.domain.frozen import PAYLOAD
from saga_mcp.domain.values import WHOLE_SAGA, JsonObject, JsonValue, OnError, OnUndoFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaOpened:
    """A saga began. Its policies are frozen here: a changed config affects new sagas only."""

    realm: str
    driver: str
    """Owner id of the process that drives it (S3.5)."""
    on_error: OnError = OnError.ABORT
    on_undo_failure: OnUndoFailure = OnUndoFailure.HALT
    caller: str = ""
    """Whose it is; of a team's saga, the team (`domain.ownership`)."""
    opener: str = ""
    """Who opened a team's saga."""
    conversation: str = ""
    key: str = ""
    """The caller's key of `saga_begin` (S8.4)."""
    purpose: str = ""
    implicit: bool = False
    """Opened by a governed call without `saga_id`."""
    reverts: str = ""
    """The committed saga whose steps it takes over to undo them (S13); empty: it does work of its own."""


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
class SagaReverted:
    """Steps of a committed saga were handed over to another one that undoes them (S13). It stays committed."""

    revert: str
    """Id of the saga that undoes them, which the same append opens."""
    steps: tuple[int, ...]
    by: str


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
class AlertsParked:
    """The saga's alerts were not acknowledged for so long that they are kept back until a person says so (S10.6)."""

    reason: str
    """What the last attempt came to; never what the receiver said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsResumed:
    """A person lets the saga's alerts be delivered after all."""

    by: str
    note: str = field(default="", compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecorded:
    """A read-only call was audited (S11.2)."""

    tool: str
    is_error: bool = False
    args: JsonObject = field(default_factory=dict[str, JsonValue], compare=False, metadata=PAYLOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaWiped:
    """The values of all events before this one were removed from the log; their facts stay (S11.5)."""


SagaEvent: TypeAlias = (
    SagaOpened
    | SagaClaimed
    | SavepointSet
    | SagaCommitted
    | SagaReverted
    | AbortRequested
    | AbortDeferred
    | RollbackFinished
    | RollbackReopened
    | InvariantViolated
    | InvariantExempted
    | SagaIdled
    | AlertsParked
    | AlertsResumed
    | ReadRecorded
    | SagaWiped
)
