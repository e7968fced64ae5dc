"""Decisions on a saga as a whole: join, commit, abort, save-point. Pure: state in, events or a refusal out."""

from __future__ import annotations

from collections.abc import Callable, Collection

from saga_mcp.domain.attention import idles, items
from saga_mcp.domain.draft import Draft, Driving
from saga_mcp.domain.duties import Abort, duties
from saga_mcp.domain.errors import (
    CommitRefused,
    IllegalTransition,
    KindRefused,
    PivotPassed,
    SagaAborted,
    SagaClosed,
    SagaNotFound,
    SavepointNotFound,
    StepUnsettled,
)
from saga_mcp.domain.events import (
    AbortRequested,
    AlertsParked,
    Event,
    SagaClaimed,
    SagaCommitted,
    SagaIdled,
    SagaOpened,
    SagaWiped,
    SavepointSet,
    StepIntended,
    StepPlan,
)
from saga_mcp.domain.hosts import awaited_hosts
from saga_mcp.domain.on_saga import at_rest, blocks_commit
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.stranded import Attempt
from saga_mcp.domain.takeover import lost
from saga_mcp.domain.values import (
    WHOLE_SAGA,
    JsonValue,
    Kind,
    Phase,
    StepState,
)


def require_open(saga: Saga) -> None:
    """Refuse unless the saga exists and takes new work.

    Raises:
        SagaNotFound: the log does not hold it.
        SagaClosed: it is committed.
        SagaAborted: it is being undone, or was.
    """
    if not saga.opened:
        raise SagaNotFound(saga.id)
    if saga.phase is Phase.COMMITTED:
        raise SagaClosed(saga.id)
    if saga.phase is not Phase.ACTIVE:
        raise _aborted(saga)
    if saga.abort_wanted is not None:
        message = (
            f"Saga {saga.id} is to be aborted as soon as {saga.step(saga.pivot).tool} is settled. Nothing was sent. "
            "Use saga_status."
        )
        raise StepUnsettled(message, (saga.pivot,))


def _aborted(saga: Saga) -> SagaAborted:
    return SagaAborted(saga.id, describe_cause(saga), tuple(item.name for item in items(saga) if item.step))


def describe_cause(saga: Saga) -> str:
    """Why the saga is being undone, in words for a model or a person."""
    kind, _, detail = saga.cause.partition(":")
    match kind:
        case "step_failed":
            step = saga.find_step(int(detail))
            return f"step {detail} {step.tool}" if step is not None else f"step {detail}"
        case "invariant":
            return f"the rule {detail!r}"
        case "agent":
            return "saga_abort"
        case "operator":
            return f"an operator{f' ({saga.aborted_by})' if saga.aborted_by else ''}"
        case "idle":
            return "the idle limit"
        case "revert":
            return f"the revert of {detail}"
        case _:
            return saga.cause


def begin_step(
    saga: Saga,
    plan: StepPlan,
    owner: str,
    *,
    opening: SagaOpened | None = None,
    seen: int = 0,
    received: tuple[int, ...] = (),
    capture: JsonValue = None,
) -> tuple[Event, ...]:
    """Record the intent of the next step, and open the saga with it where `opening` is given.

    Raises:
        SagaNotFound, SagaClosed, SagaAborted: the saga takes no steps.
        StepUnsettled: a pivot or, before a pivot, any step is unsettled.
        KindRefused: a tool of this kind may not join at this point.
    """
    draft = Draft(saga)
    if opening is not None and not saga.opened:
        draft.add(opening)
    require_open(draft.saga)
    require_kind(draft.saga, plan)
    number, heard = len(saga.steps) + 1, still_lost(saga, received)
    draft.add(StepIntended(step=number, plan=plan, owner=owner, seen=seen, received=heard, capture=capture))
    return draft.drafted()


def still_lost(saga: Saga, received: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the steps that count as unanswered so far."""
    return tuple(number for number in received if saga.step(number).reply_lost)


def require_kind(saga: Saga, plan: StepPlan) -> None:
    """Refuse a call whose tool may not join now (S7.1, S7.2).

    Raises:
        StepUnsettled, KindRefused: why, and what to do.
    """
    if saga.pivot_unsettled:
        pivot = saga.step(saga.pivot)
        message = (
            f"Step {pivot.number} {pivot.tool} cannot be undone and is not settled yet. Nothing was sent. "
            "Until it is, only read-only tools run: use saga_status."
        )
        raise StepUnsettled(message, (pivot.number,))
    if saga.pivot_passed and plan.kind is not Kind.RETRIABLE:
        pivot = saga.step(saga.pivot)
        message = (
            f"Nothing was sent: {pivot.tool} already passed the point of no return, and {plan.tool} could not be "
            "undone any more. Finish with saga_commit, then use a new saga."
        )
        raise KindRefused(message)
    if not saga.pivot_passed and plan.kind is Kind.RETRIABLE:
        message = (
            f"Nothing was sent: {plan.tool} has no undo and may only follow the point of no return. "
            "Call the tool that is the point of no return first."
        )
        raise KindRefused(message)
    if plan.kind is Kind.PIVOT:
        unsettled = tuple(step.number for step in saga.steps if _unsettled(step))
        if unsettled:
            steps = ", ".join(f"{number} {saga.step(number).tool}" for number in unsettled)
            message = (
                f"Nothing was sent: {plan.tool} cannot be undone, so everything before it has to be settled, and "
                f"step {steps} is not. Use saga_status, then call it again."
            )
            raise StepUnsettled(message, unsettled)


def _unsettled(step: Step) -> bool:
    return (
        step.running
        or step.late
        or step.state
        in {
            StepState.INTENDED,
            StepState.IN_DOUBT,
            StepState.AWAITING_APPROVAL,
        }
    )


def commit(saga: Saga, *, by: str, accept_failed: tuple[int, ...] = ()) -> tuple[Event, ...]:
    """Keep everything. Repeating is harmless: a committed saga needs no event.

    Raises:
        SagaNotFound: the log does not hold it.
        SagaAborted: it is being undone, or was (DESIGN.md rule 11).
        CommitRefused: something has to be settled first; all reasons at once.
    """
    if saga.opened and saga.phase is Phase.COMMITTED:
        return ()
    if not saga.opened or saga.phase is not Phase.ACTIVE:
        require_open(saga)
    reasons: list[str] = []
    if saga.abort_wanted is not None:
        reasons.append("an abort waits for the point of no return to be settled")
    for number in accept_failed:
        step = saga.find_step(number)
        if step is None or step.state is not StepState.FAILED:
            reasons.append(f"accept_failed names step {number}, which did not fail")
    blocking = tuple(step for step in saga.steps if blocks_commit(saga, step, accepted=accept_failed))
    reasons += [f"step {step.number} {step.tool} {_why_blocked(step)}" for step in blocking]
    if reasons:
        raise CommitRefused(tuple(reasons), tuple(step.number for step in blocking))
    return (SagaCommitted(by=by, accepted=accept_failed),)


def _why_blocked(step: Step) -> str:
    if step.late:
        return "took effect after its undo ran"
    if step.state is StepState.IN_DOUBT:
        return "is unknown"
    if step.exhausted:
        return "has not succeeded and used up its attempts"
    if step.running or step.state is StepState.INTENDED:
        return "is still running"
    if step.state is StepState.AWAITING_APPROVAL:
        return "was allowed and waits to be sent" if step.approved else "waits for an approval"
    if step.state is StepState.FAILED:
        return f"failed and was not repeated (accept_failed=[{step.number}] accepts that)"
    return f"is {step.state}"


def request_abort(
    saga: Saga, driving: Driving, *, cause: str, by: str = "", reason: str = "", to_savepoint: str | None = None
) -> tuple[Event, ...]:
    """Ask for the rollback; joins one that is under way, and waits for an unsettled pivot (S5.1, S7.1).

    The caller sees in the resulting state whether the abort runs, or is only wanted.

    Raises:
        SagaNotFound: the log does not hold it.
        SagaClosed: it is committed.
        SagaAborted: a save-point was named, and the whole saga is already undone or being undone.
        SavepointNotFound: it has no such mark.
        PivotPassed: the point of no return has succeeded.
    """
    if not saga.opened:
        raise SagaNotFound(saga.id)
    if saga.phase is Phase.COMMITTED:
        raise SagaClosed(saga.id)
    if saga.phase is Phase.COMPENSATED or (saga.phase is Phase.COMPENSATING and saga.target == WHOLE_SAGA):
        if to_savepoint is not None:
            raise _aborted(saga)
        return ()
    if saga.pivot_passed:
        raise PivotPassed(saga.id, saga.step(saga.pivot).tool)
    target = WHOLE_SAGA
    if to_savepoint is not None:
        mark = saga.savepoint(to_savepoint)
        if mark is None:
            raise SavepointNotFound(to_savepoint, tuple(m.name for m in saga.savepoints))
        target = mark.seq
    if saga.phase is Phase.COMPENSATING and target >= saga.target:
        return ()
    draft = Draft(saga)
    request = AbortRequested(cause=cause, target=target, by=by, reason=reason, driver=driving.driver)
    draft.abort(request, driving.bind)
    return draft.close(driving)


def set_savepoint(saga: Saga, name: str) -> tuple[Event, ...]:
    """Set a mark (S7.3).

    Raises:
        SagaNotFound, SagaClosed, SagaAborted: the saga takes no marks.
        StepUnsettled: a step is running or in doubt.
        PivotPassed: nothing before the pivot can be undone any more.
    """
    require_open(saga)
    if saga.pivot_passed:
        raise PivotPassed(saga.id, saga.step(saga.pivot).tool)
    draft = Draft(saga)
    try:
        draft.add(SavepointSet(name=name))
    except IllegalTransition as error:
        unsettled = tuple(step.number for step in saga.steps if _unsettled(step))
        steps = ", ".join(str(number) for number in unsettled)
        message = f"No save-point was set: step {steps} is not settled. Use saga_status, then try again."
        raise StepUnsettled(message, unsettled) from error
    return draft.drafted()


def flag_idle(saga: Saga) -> tuple[Event, ...]:
    """Record that nothing happened for the idle limit; it stays so until the next step (S9.4)."""
    return (SagaIdled(),) if idles(saga) and not saga.idle else ()


def park_alerts(saga: Saga, reason: str) -> tuple[Event, ...]:
    """Keep the saga's alerts back until a person says so (S10.6)."""
    return (AlertsParked(reason=reason),) if saga.opened and not saga.alerts_parked else ()


def wipe(saga: Saga) -> tuple[Event, ...]:
    """Remove the values of a saga that needs them no more; none where it may, or where it is done (S11.5)."""
    return (SagaWiped(),) if at_rest(saga) and not saga.wiped else ()


def claim(saga: Saga, driver: str) -> tuple[Event, ...]:
    """Take over driving; nothing to append where it is ours already."""
    return () if saga.driver == driver else (SagaClaimed(driver=driver),)


def abort_as_due(saga: Saga, driving: Driving) -> tuple[Event, ...]:
    """Run the abort that the policy or a deferred wish makes due, if one still is (S4.2, S7.1)."""
    draft = Draft(saga)
    for duty in duties(saga):
        if isinstance(duty, Abort):
            request = AbortRequested(
                cause=duty.cause, target=duty.target, by=duty.by or "policy", reason=duty.reason, driver=driving.driver
            )
            draft.abort(request, driving.bind)
            break
    return draft.close(driving)


def finish_rollback(saga: Saga, driving: Driving) -> tuple[Event, ...]:
    """End the rollback, where nothing is left to undo."""
    return Draft(saga).close(driving)


def take_over(  # noqa: PLR0913 - what was observed, all but the first with a name
    saga: Saga,
    driving: Driving,
    dead: Callable[[str], bool],
    lasting: Collection[Attempt] = (),
    *,
    assigned: bool = False,
    unproved: Collection[str] = (),
    stalled: Collection[str] = (),
    here: str = "",
) -> tuple[Event, ...]:
    """Record what became of a dead process's work, and drive the saga from now on; none where somebody living does.

    Where all that is due is for other machines it is driven by nobody from now on: who can, takes it (S1.3).

    Args:
        saga: the current state.
        driving: who takes over.
        dead: whether an owner id counts as dead.
        lasting: see `lost`.
        assigned: whoever sees to it that one process at a time drives a saga has given it to this one.
        unproved: see `lost`.
        stalled: owners that live and drive nothing any more (S10.5).
        here: the machine of this process.
    """
    driven = saga.driver not in {"", driving.driver, *stalled} and not dead(saga.driver)
    if driven and not assigned:
        # A living driver may still hold a step of a process that died.
        return lost(saga, dead, driving.bind, lasting, unproved)
    draft = Draft(saga)
    draft.add_all(claim(saga, driving.driver))
    draft.add_all(lost(draft.saga, dead, driving.bind, lasting, unproved))
    if awaited_hosts(draft.saga, here):
        draft = Draft(saga)
        draft.add_all(claim(saga, ""))
        draft.add_all(lost(draft.saga, dead, driving.bind, lasting, unproved))
    return draft.close(driving)


def give_back(saga: Saga, driver: str, here: str) -> tuple[Event, ...]:
    """Let processes of the machine that is needed drive the saga, where this one can do nothing of what is due."""
    return claim(saga, "") if saga.driver == driver and awaited_hosts(saga, here) else ()
