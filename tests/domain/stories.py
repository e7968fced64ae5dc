"""Short ways to say what happened to a saga, for the examples."""

from __future__ import annotations

from tests.domain import alphabet as a

from saga_mcp.domain import events as e
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import fold
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_decisions import Landing
from saga_mcp.domain.values import Effect, OnError, OnUndoFailure, SettledBy

UNDO = (a.CALL,)


def bind(_step: Step) -> BoundUndo:
    """Every undo can be built without a result."""
    return BoundUndo(parts=UNDO)


DRIVING = Driving(driver="me", bind=bind)
LANDING = Landing(result=None, undo=BoundUndo(parts=UNDO))


def saga_of(*events: e.Event, on_error: OnError = OnError.ABORT, halt: bool = True) -> Saga:
    """An open saga to which `events` happened."""
    policy = OnUndoFailure.HALT if halt else OnUndoFailure.CONTINUE
    opened = e.SagaOpened(realm="r", driver="me", on_error=on_error, on_undo_failure=policy)
    return fold(Saga(id="sg-1"), (opened, *events))


def intended(step: int, plan: e.StepPlan = a.PLAIN) -> e.StepIntended:
    """The step was sent."""
    return e.StepIntended(step=step, plan=plan, owner="me")


def succeeded(step: int, *parts: e.PartSpec) -> e.StepSucceeded:
    """The step landed, with this undo."""
    return e.StepSucceeded(step=step, parts=parts or UNDO)


def done(step: int, *parts: e.PartSpec, plan: e.StepPlan = a.PLAIN) -> tuple[e.Event, e.Event]:
    """The step was sent and landed."""
    return intended(step, plan), succeeded(step, *parts)


def in_doubt(step: int, *, running: bool = False, end_known: bool = False) -> e.StepFellInDoubt:
    """Nobody knows what the step did."""
    return e.StepFellInDoubt(step=step, reason="timeout", running=running, end_known=end_known, parts=UNDO)


def aborted(target: int = 0) -> e.AbortRequested:
    """The agent aborted."""
    return e.AbortRequested(cause="agent", target=target, driver="me")


def undone(step: int, part: str = "1") -> tuple[e.Event, e.Event]:
    """One part was undone."""
    return e.UndoIntended(step=step, part=part, owner="me"), e.UndoSucceeded(step=step, part=part)


def unknown_attempt(step: int) -> e.StepAttemptEnded:
    """An attempt ended, and may have had an effect."""
    return e.StepAttemptEnded(step=step, effect=Effect.UNKNOWN)


def late(step: int, *, landed: bool = True) -> e.StepSettled:
    """An answer came when nobody waited for it any more."""
    return e.StepSettled(step=step, landed=landed, by=SettledBy.LATE_ANSWER, parts=UNDO)
