"""Transitions of a step's forward action: approval, intent, attempts, outcome, doubt (SEMANTICS.md S3, S4, S7)."""

from __future__ import annotations

from typing import assert_never

from saga_mcp.domain.copying import replace
from saga_mcp.domain.errors import IllegalTransition
from saga_mcp.domain.events import (
    PartSpec,
    ReplyLost,
    StepAdopted,
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
from saga_mcp.domain.rollback import step_item
from saga_mcp.domain.settling import settle
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.transition import add_step, heard, put_step, require, step_of
from saga_mcp.domain.undo_parts import bind, bound
from saga_mcp.domain.values import (
    Effect,
    Kind,
    Phase,
    StepState,
)


def apply_step_event(saga: Saga, event: StepEvent) -> Saga:  # noqa: C901, PLR0911, PLR0912 - one flat case per event reads best
    """Return the saga after an event of a step's forward action.

    Raises:
        IllegalTransition: the event is not allowed in this state.
    """
    require(saga.opened, "the saga was never opened")
    if isinstance(event, StepAwaitingApproval):
        return _await_approval(saga, event)
    if isinstance(event, StepIntended):
        return _intend(saga, event)
    if isinstance(event, StepAdopted):
        return _adopt(saga, event)
    step = step_of(saga, event.step)
    match event:
        case StepApproved():
            require(step.state is StepState.AWAITING_APPROVAL and not step.approved, "no approval is awaited")
            require(not saga.final, f"the saga is {saga.phase}")  # back at its save-point, it goes on with the call
            return put_step(saga, replace(step, approved=True, allowed_by=event.by))
        case StepCancelled():
            require(step.state is StepState.AWAITING_APPROVAL, "the call was already sent")
            ended = replace(step, state=StepState.CANCELLED, cancelled=event.why, person=event.by, note=event.note)
            return put_step(saga, ended)
        case StepAttempted():
            return _attempt(saga, step, event.owner)
        case StepAttemptEnded():
            require(step.state is StepState.INTENDED and step.running, "no attempt is running")
            unknown = step.unknown_attempts + (event.effect is Effect.UNKNOWN)
            require(step.plan.idempotent or not unknown, "no further attempt could follow one of unknown outcome")
            return put_step(
                saga, replace(step, running=False, unknown_attempts=unknown, end_known=True, error=event.error)
            )
        case UndoRegistered():
            return _register_undo(saga, step, event.part)
        case StepSucceeded():
            require(step.state is StepState.INTENDED and step.running, "no first answer is awaited")
            done = replace(
                step,
                state=StepState.SUCCEEDED,
                running=step.plan.looks_after,
                end_known=True,
                landed=True,
                order=step.order or saga.next_seq,
                result=event.result,
                kept=event.kept,
                main=event.parts,
                parts=bound(event.parts, step.registered),
                build_error="" if event.parts is not None else event.build_error,
            )
            return put_step(saga, done)
        case StepObserved():
            require(step.state is StepState.SUCCEEDED and step.running, "nothing is looked at")
            require(step.plan.looks_after and not step.overdue, "nothing is looked at after this step")
            ended = replace(step, running=False, image=event.image, after=event.after)
            return put_step(saga, bind(ended, event.parts, event.build_error))
        case StepFailed():
            require(step.state is StepState.INTENDED, f"the step is {step.state}")
            require(step.kind is not Kind.RETRIABLE, "a retriable step cannot fail, it is tried again")
            require(step.unknown_attempts == 0, "an earlier attempt may have had an effect")
            return put_step(saga, _failed(saga, step, event.error))
        case StepFellInDoubt():
            return _fall_in_doubt(saga, step, event)
        case StepRunEnded():
            require(step.running and step.state is not StepState.INTENDED, "no answer is awaited any more")
            return put_step(
                saga,
                replace(step, running=False, overdue=False, end_known=event.end_known, error=event.error or step.error),
            )
        case StepOverdue():
            require(step.state is not StepState.INTENDED, "its time limit comes first")
            require(step.running and not step.overdue, "the step is not running")
            return put_step(saga, replace(step, overdue=True))
        case StepProbesEnded():
            require(step.probe_due and not step.running, "no probe is due")
            return put_step(saga, replace(step, probes_ended=True))
        case StepSettled():
            return settle(saga, step, event)
        case StepExhausted():
            require(step.kind is Kind.RETRIABLE and not step.exhausted, "the step is not retriable")
            require(not step.running and step.state in {StepState.INTENDED, StepState.IN_DOUBT}, f"it is {step.state}")
            return put_step(saga, replace(step, exhausted=True, error=event.error or step.error))
        case StepResumed():
            require(step.exhausted and saga.phase is Phase.ACTIVE, "the step has not used up its attempts")
            return put_step(saga, replace(step, exhausted=False, attempts=0))
        case StepExempted():
            return _exempt(saga, step, event)
        case ReplyLost():
            return put_step(saga, replace(step, reply_lost=True))
        case _:  # pragma: no cover
            assert_never(event)


def require_admissible(saga: Saga, plan: StepPlan) -> None:
    """Refuse a step that may not start now (DESIGN.md section 4; S7.1, S7.2).

    Raises:
        IllegalTransition: it may not; the message says why.
    """
    require(saga.phase is Phase.ACTIVE, f"the saga is {saga.phase}")
    require(not saga.reverts, "it undoes another saga, and does nothing else")
    require(saga.abort_wanted is None, "an abort waits for the pivot")
    require(plan.kind is not Kind.READ_ONLY, "a read-only call is not a step")
    require(not saga.pivot_unsettled, "the pivot is unsettled")
    if saga.pivot_passed:
        require(plan.kind is Kind.RETRIABLE, "only retriable steps may follow the pivot")
        require(plan.idempotent or plan.has_probe, "a retriable tool must be idempotent or have a probe")
    else:
        require(plan.kind is not Kind.RETRIABLE, "retriable steps need a pivot before them")
    if plan.kind is Kind.PIVOT:
        require(not saga.running and not saga.unended and not saga.in_doubt, "an earlier step is unsettled")
        require(
            not any(s.state is StepState.AWAITING_APPROVAL or s.late for s in saga.loose_steps),
            "an earlier step is open",
        )


def _await_approval(saga: Saga, event: StepAwaitingApproval) -> Saga:
    require(event.step == len(saga.steps) + 1, "steps are numbered in order")
    require_admissible(saga, event.plan)
    step = Step(
        number=event.step,
        plan=event.plan,
        state=StepState.AWAITING_APPROVAL,
        intent_seq=saga.next_seq,
        expires_at=event.expires_at,
    )
    return add_step(_all_heard(saga, event.received), step, seen=event.seen)


def may_be_sent(saga: Saga, step: Step) -> bool:
    """Whether a call that a person allowed may go out now: the rules are checked again (S9.1)."""
    try:
        require_admissible(_without(saga, step), step.plan)
    except IllegalTransition:
        return False
    return True


def _without(saga: Saga, waiting: Step) -> Saga:
    """The saga as it is for a stored call that is about to be sent, which is in nobody's way but its own."""
    return put_step(saga, replace(waiting, state=StepState.CANCELLED))


def _all_heard(saga: Saga, received: tuple[int, ...]) -> Saga:
    for number in received:
        saga = heard(saga, step_of(saga, number))
    return saga


def _intend(saga: Saga, event: StepIntended) -> Saga:
    known = saga.find_step(event.step)
    if known is None:
        require(event.step == len(saga.steps) + 1, "steps are numbered in order")
    else:
        require(known.state is StepState.AWAITING_APPROVAL and known.approved, "the step was not approved")
        require(known.plan == event.plan, "another call was approved")
    require_admissible(saga if known is None else _without(saga, known), event.plan)
    step = Step(
        number=event.step,
        plan=event.plan,
        state=StepState.INTENDED,
        intent_seq=saga.next_seq,
        running=True,
        attempts=1,
        owner=event.owner,
        capture=event.capture,
        approved=known is not None,
        allowed_by="" if known is None else known.allowed_by,
        reply_lost=known is not None,  # whoever asked for it was told to wait, and has to ask again for its answer
    )
    return add_step(_all_heard(saga, event.received), step, seen=event.seen)


def _adopt(saga: Saga, event: StepAdopted) -> Saga:
    require(saga.phase is Phase.ACTIVE and saga.reverts != "", "the saga takes over no steps")
    require(event.step == len(saga.steps) + 1, "steps are numbered in order")
    require(event.undoes > 0 and event.plan.kind is Kind.COMPENSABLE, "this is no step that could be undone")
    require(event.order > 0, "it has not ended")
    step = Step(
        number=event.step,
        undoes=event.undoes,
        plan=event.plan,
        state=StepState.SUCCEEDED,
        intent_seq=event.intent_seq,
        order=event.order,
        end_known=True,
        landed=True,
        registered=event.registered,
        results=event.results,
        capture=event.capture,
        image=event.image,
        after=event.after,
        result=event.result,
    )
    return add_step(saga, bind(step, event.main, event.build_error))


def _attempt(saga: Saga, step: Step, owner: str) -> Saga:
    require(saga.phase is Phase.ACTIVE and saga.abort_wanted is None, "the saga is closed to new attempts")
    require(not step.running and not step.overdue, "an attempt is still running")
    require(not step.exhausted, "the attempts are used up")
    in_doubt = step.state is StepState.IN_DOUBT
    require(in_doubt or step.state is StepState.INTENDED, f"the step is {step.state}")
    require(
        step.plan.idempotent or not (in_doubt or step.unknown_attempts),
        "an attempt of unknown outcome may be sent again only where the tool is idempotent",
    )
    sent = replace(step, running=True, end_known=False, attempts=step.attempts + 1, owner=owner)
    return put_step(saga, replace(sent, unknown_attempts=step.unknown_attempts + in_doubt))


def _register_undo(saga: Saga, step: Step, part: PartSpec) -> Saga:
    require(step.running, "the call has ended")
    return put_step(saga, bind(replace(step, registered=(*step.registered, part)), step.main, step.build_error))


def _failed(saga: Saga, step: Step, error: str) -> Step:
    return replace(
        step,
        state=StepState.FAILED,
        running=False,
        overdue=False,
        end_known=True,
        landed=False,
        order=step.order or saga.next_seq,
        error=error or step.error,
    )


def _fall_in_doubt(saga: Saga, step: Step, event: StepFellInDoubt) -> Saga:
    require(step.state is StepState.INTENDED, f"the step is {step.state}")
    require(step.running or not event.running, "no attempt is running")
    require(step.running or step.unknown_attempts > 0, "every attempt is known to have had no effect")
    require(not (event.running and event.end_known), "a running call has no known end")
    doubtful = replace(
        step,
        state=StepState.IN_DOUBT,
        unknown_attempts=step.unknown_attempts + step.running,
        running=event.running,
        end_known=event.end_known,
        order=step.order or saga.next_seq,
        error=event.error or event.reason,
    )
    return put_step(saga, bind(doubtful, event.parts, event.build_error))


def _exempt(saga: Saga, step: Step, event: StepExempted) -> Saga:
    require(step_item(saga, step) is not None, "nothing waits for a person here")
    require(step.state is not StepState.AWAITING_APPROVAL, "a call that waits for approval is rejected, not exempted")
    require(not step.undo_in_flight or step.undo_overdue, "its undo is running")
    parts = tuple(replace(part, running=False, overdue=False) for part in step.parts or ())
    return put_step(
        saga,
        replace(
            step,
            state=StepState.EXEMPT,
            running=False,
            overdue=False,
            late=False,
            exhausted=False,
            parts=None if step.parts is None else parts,
            order=step.order or saga.next_seq,
            person=event.by,
            note=event.note,
        ),
    )
