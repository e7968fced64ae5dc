"""Transitions of the saga itself: open, commit, abort, save-points, end of a rollback (SEMANTICS.md S2, S5, S7)."""

from __future__ import annotations

from typing import assert_never

from saga_mcp.domain.copying import replace
from saga_mcp.domain.events import (
    AbortDeferred,
    AbortRequested,
    AlertsParked,
    AlertsResumed,
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
    SagaReverted,
    SagaWiped,
    SavepointSet,
)
from saga_mcp.domain.rollback import in_scope, rollback_done, step_item
from saga_mcp.domain.state import Reverted, Saga, Savepoint, Step, WantedAbort
from saga_mcp.domain.transition import put_step, require, step_of
from saga_mcp.domain.undo_parts import next_generation
from saga_mcp.domain.values import (
    WHOLE_SAGA,
    Kind,
    Phase,
    StepState,
)


def apply_saga_event(saga: Saga, event: SagaEvent) -> Saga:
    """Return the saga after an event of the saga itself; `machine.apply` counts the event.

    Raises:
        IllegalTransition: the event is not allowed in this state.
    """
    if isinstance(event, SagaOpened):
        return _open(saga, event)
    require(saga.opened, "the saga was never opened")
    match event:
        case SagaClaimed(driver=driver):
            return replace(saga, driver=driver)
        case ReadRecorded():
            return saga
        case SavepointSet(name=name):
            return _set_savepoint(saga, name)
        case SagaCommitted():
            return _commit(saga, event)
        case SagaReverted(revert=revert, steps=steps):
            require(bool(steps) and all(revertible(saga, step_of(saga, number)) for number in steps), "nothing to undo")
            return replace(saga, reverted=(*saga.reverted, Reverted(revert=revert, steps=steps)))
        case AbortRequested():
            return _abort(saga, event)
        case AbortDeferred():
            require(saga.phase is Phase.ACTIVE and saga.pivot_unsettled, "no pivot is unsettled")
            _require_target(saga, event.target)
            wanted = saga.abort_wanted
            target = event.target if wanted is None else min(wanted.target, event.target)
            return replace(
                saga, abort_wanted=WantedAbort(cause=event.cause, target=target, by=event.by, reason=event.reason)
            )
        case RollbackFinished():
            return _finish_rollback(saga)
        case RollbackReopened(step=number):
            return _reopen(saga, step_of(saga, number))
        case InvariantViolated(name=name, step=step):
            require(saga.phase is Phase.ACTIVE, "the saga is not active")
            saga = replace(saga, violated_by=step)
            known = not saga.pivot_passed or name in saga.violations
            return saga if known else replace(saga, violations=(*saga.violations, name))
        case InvariantExempted(name=name):
            require(name in saga.violations, f"invariant {name} is not violated")
            return replace(saga, violations=tuple(v for v in saga.violations if v != name))
        case SagaIdled():
            require(saga.phase is Phase.ACTIVE, "the saga is not active")
            require(not saga.running and not saga.unended, "a step is running")
            return replace(saga, idle=True)
        case AlertsParked() | AlertsResumed() | SagaWiped():
            return _look_after(saga, event)
        case _:  # pragma: no cover
            assert_never(event)


def _look_after(saga: Saga, event: AlertsParked | AlertsResumed | SagaWiped) -> Saga:
    """What concerns the record of a saga, and nothing that it did."""
    match event:
        case AlertsParked():
            require(not saga.alerts_parked, "its alerts are kept back already")
            return replace(saga, alerts_parked=True)
        case AlertsResumed():
            require(saga.alerts_parked, "its alerts are not kept back")
            return replace(saga, alerts_parked=False)
        case SagaWiped():
            require(at_rest(saga), "something is left to be done or settled")
            require(not saga.wiped, "its values are wiped already")
            return replace(saga, wiped=True)


def at_rest(saga: Saga) -> bool:
    """Whether the saga is final, and nothing runs, is due or waits for a person: its values are needed no more."""
    waits = saga.running or saga.undoing or saga.violations or saga.alerts_parked
    return saga.final and not waits and all(step_item(saga, step) is None for step in saga.loose_steps)


def _open(saga: Saga, event: SagaOpened) -> Saga:
    require(not saga.opened, "the saga is already open")
    return replace(
        saga,
        realm=event.realm,
        driver=event.driver,
        on_error=event.on_error,
        on_undo_failure=event.on_undo_failure,
        caller=event.caller,
        opener=event.opener,
        conversation=event.conversation,
        key=event.key,
        purpose=event.purpose,
        implicit=event.implicit,
        reverts=event.reverts,
    )


def _set_savepoint(saga: Saga, name: str) -> Saga:
    require(saga.phase is Phase.ACTIVE and not saga.reverts, "the saga takes no marks")
    require(not saga.pivot, "a save-point after the pivot could never be undone to")
    require(not saga.running and not saga.unended and not saga.in_doubt, "a step is unsettled")
    others = tuple(mark for mark in saga.savepoints if mark.name != name)
    return replace(saga, savepoints=(*others, Savepoint(name=name, seq=saga.next_seq)))


def _commit(saga: Saga, event: SagaCommitted) -> Saga:
    require(saga.phase is Phase.ACTIVE and not saga.reverts, f"the saga is {saga.phase}")
    require(saga.abort_wanted is None, "an abort waits for the pivot")
    for number in event.accepted:
        require(step_of(saga, number).state is StepState.FAILED, f"step {number} did not fail")
    for step in saga.steps:
        require(not blocks_commit(saga, step, accepted=event.accepted), f"step {step.number} is not settled")
    return replace(saga, phase=Phase.COMMITTED, idle=False, committed_seq=saga.next_seq)


def revertible(saga: Saga, step: Step) -> bool:
    """Whether a step of a committed saga can be handed over to be undone: it stands, and no other saga has it (S13)."""
    stands = step.kind is Kind.COMPENSABLE and step.state is StepState.SUCCEEDED and not step.late
    taken = saga.handed_to(step.number) is not None
    return saga.phase is Phase.COMMITTED and stands and not taken and not saga.wiped


def blocks_commit(saga: Saga, step: Step, *, accepted: tuple[int, ...] = ()) -> bool:
    """Whether this step keeps the saga from being committed (DESIGN.md rules 2 and 11; S4.4)."""
    if step.running or step.late:
        return True
    match step.state:
        case StepState.SUCCEEDED | StepState.EXEMPT | StepState.CANCELLED:
            return False
        case StepState.COMPENSATED:
            # Undone back to a save-point, or by hand: that part of the work was taken back on purpose.
            return False
        case StepState.FAILED:
            return not (step.accepted or step.number in accepted or _superseded(saga, step))
        case _:
            return True


def _superseded(saga: Saga, failed: Step) -> bool:
    return failed.plan.step_key != "" and any(
        step.plan.step_key == failed.plan.step_key and step.state is StepState.SUCCEEDED
        for step in saga.steps[failed.number :]
    )


def _require_target(saga: Saga, target: int) -> None:
    require(target == WHOLE_SAGA or any(mark.seq == target for mark in saga.savepoints), "there is no such save-point")


def _abort(saga: Saga, event: AbortRequested) -> Saga:
    require(not saga.pivot, "the rollback would cross a pivot that succeeded or is unsettled")
    _require_target(saga, event.target)
    if saga.phase is Phase.COMPENSATING:
        require(event.target < saga.target, "the rollback already goes that far")
    else:
        require(saga.phase is Phase.ACTIVE, f"the saga is {saga.phase}")
    return replace(
        saga,
        phase=Phase.COMPENSATING,
        target=event.target,
        cause=event.cause,
        reason=event.reason,
        aborted_by=event.by,
        driver=event.driver,
        abort_wanted=None,
        idle=False,
        savepoints=tuple(mark for mark in saga.savepoints if mark.seq <= event.target),
    )


def _finish_rollback(saga: Saga) -> Saga:
    require(rollback_done(saga), "the rollback is not done")
    if saga.target == WHOLE_SAGA:
        return replace(saga, phase=Phase.COMPENSATED)
    steps = saga.steps
    for step in saga.steps:
        if in_scope(saga, step) and step.state is StepState.FAILED and not step.accepted:
            steps = steps.replaced(step.number - 1, replace(step, accepted=True))
    return replace(saga, steps=steps, phase=Phase.ACTIVE, target=WHOLE_SAGA, cause="", reason="", aborted_by="")


def _reopen(saga: Saga, step: Step) -> Saga:
    require(reopens(saga, step), f"step {step.number} has no late effect that could be undone now")
    again = next_generation(replace(step, late=False, state=StepState.SUCCEEDED, person=""))
    return put_step(replace(saga, phase=Phase.COMPENSATING), again)


def reopens(saga: Saga, step: Step) -> bool:
    """Whether a late effect can be undone by the rollback that runs or has run; otherwise a person is asked (S5.5)."""
    return (
        step.late
        and not saga.wiped  # what its undo would have to be called with is gone
        and step.kind is Kind.COMPENSABLE
        and saga.phase in {Phase.COMPENSATING, Phase.COMPENSATED}
        and in_scope(saga, step)
    )
