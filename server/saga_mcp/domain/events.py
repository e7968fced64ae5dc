"""The facts a saga log stores: one frozen dataclass per event, named in the past tense (S14.1).

A saga is the fold of these. Each event states one fact that was durable before anything was done about it. Fields
marked with `PAYLOAD` hold values of the outside world (arguments, results, texts); the log keeps them in columns of
their own (S11.4), and the machine never decides anything on them, which is why they take no part in comparison.
"""

from __future__ import annotations

from typing import TypeAlias

from saga_mcp.domain.frozen import PAYLOAD, PartSpec
from saga_mcp.domain.saga_events import (
    AbortDeferred,
    AbortRequested,
    InvariantExempted,
    InvariantViolated,
    ReadRecorded,
    RollbackFinished,
    RollbackReopened,
    SagaClaimed,
    SagaCommitted,
    SagaEvent,
    SagaIdled,
    SagaOpened,
    SavepointSet,
)
from saga_mcp.domain.step_events import (
    ReplyLost,
    StepApproved,
    StepAttempted,
    StepAttemptEnded,
    StepAwaitingApproval,
    StepCancelled,
    StepEvent,
    StepExempted,
    StepExhausted,
    StepFailed,
    StepFellInDoubt,
    StepIntended,
    StepObserved,
    StepOverdue,
    StepPlan,
    StepProbesEnded,
    StepResumed,
    StepRunEnded,
    StepSettled,
    StepSucceeded,
    UndoRegistered,
)
from saga_mcp.domain.undo_events import (
    UndoEvent,
    UndoFailed,
    UndoFellInDoubt,
    UndoIntended,
    UndoOverdue,
    UndoParked,
    UndoProbesEnded,
    UndoResolved,
    UndoResumed,
    UndoRunEnded,
    UndoSettled,
    UndoSucceeded,
)

Event: TypeAlias = SagaEvent | StepEvent | UndoEvent

__all__ = [
    "PAYLOAD",
    "AbortDeferred",
    "AbortRequested",
    "Event",
    "InvariantExempted",
    "InvariantViolated",
    "PartSpec",
    "ReadRecorded",
    "ReplyLost",
    "RollbackFinished",
    "RollbackReopened",
    "SagaClaimed",
    "SagaCommitted",
    "SagaEvent",
    "SagaIdled",
    "SagaOpened",
    "SavepointSet",
    "StepApproved",
    "StepAttemptEnded",
    "StepAttempted",
    "StepAwaitingApproval",
    "StepCancelled",
    "StepEvent",
    "StepExempted",
    "StepExhausted",
    "StepFailed",
    "StepFellInDoubt",
    "StepIntended",
    "StepObserved",
    "StepOverdue",
    "StepPlan",
    "StepProbesEnded",
    "StepResumed",
    "StepRunEnded",
    "StepSettled",
    "StepSucceeded",
    "UndoEvent",
    "UndoFailed",
    "UndoFellInDoubt",
    "UndoIntended",
    "UndoOverdue",
    "UndoParked",
    "UndoProbesEnded",
    "UndoRegistered",
    "UndoResolved",
    "UndoResumed",
    "UndoRunEnded",
    "UndoSettled",
    "UndoSucceeded",
]
