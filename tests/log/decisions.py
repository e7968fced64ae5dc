"""Short decisions for tests of the log: each appends what its name says."""

from __future__ import annotations

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import SagaAborted, SagaClosed
from saga_mcp.domain.events import (
    AbortRequested,
    Event,
    PartSpec,
    SagaCommitted,
    SagaOpened,
    StepIntended,
    StepPlan,
    StepSucceeded,
)
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.saga_decisions import request_abort
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonValue, Kind, PartAction, Phase
from saga_mcp.log.port import Decide, Decision


def append(*events: Event) -> Decide:
    """Append `events` whatever the state is."""
    return lambda _: Decision(events=events)


def opening(realm: str = "ops", *, caller: str = "ada", key: str = "", purpose: str = "") -> Decide:
    return append(SagaOpened(realm=realm, driver="own-1", caller=caller, key=key, purpose=purpose))


def intending(tool: str = "travel.charge", **args: JsonValue) -> Decide:
    """The next step, whatever its number."""
    plan = StepPlan(tool=tool, kind=Kind.COMPENSABLE, pair_hash="p" * 64, args=args)
    return lambda saga: Decision(events=(StepIntended(step=len(saga.steps) + 1, plan=plan, owner="own-1"),))


def succeeding(result: JsonValue = None) -> Decide:
    """The last step took effect."""
    undo = PartSpec(action=PartAction.CALL, tool="travel.refund", args={"charge": "ch-1"})
    return lambda saga: Decision(events=(StepSucceeded(step=len(saga.steps), parts=(undo,), result=result),))


def committing(saga: Saga) -> Decision:
    _require_active(saga)
    return Decision(events=(SagaCommitted(by="agent"),))


def aborting(saga: Saga) -> Decision:
    _require_active(saga)
    return Decision(events=(AbortRequested(cause="agent"),))


def rolling_back(saga: Saga) -> Decision:
    """The abort as the domain drafts it."""
    driving = Driving(driver="own-1", bind=lambda _: BoundUndo())
    return Decision(events=request_abort(saga, driving, cause="agent"))


def looking(_: Saga) -> Decision:
    return Decision()


def _require_active(saga: Saga) -> None:
    if saga.phase is Phase.COMMITTED:
        raise SagaClosed(saga.id)
    if saga.phase is not Phase.ACTIVE:
        raise SagaAborted(saga.id, saga.cause)
