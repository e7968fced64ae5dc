"""Decisions on calls that a person has to allow before they are sent (SEMANTICS.md S9.1). Pure.

A question is bound to its saga, tool, exact arguments and pair: it is the stored call that is allowed, once, and no
other. Nothing is sent, captured or held before.
"""

from __future__ import annotations

from saga_mcp.domain.draft import Draft, Driving
from saga_mcp.domain.errors import ApprovalRejected, ItemRefused, StepUnsettled
from saga_mcp.domain.events import Event, SagaOpened, StepApproved, StepAwaitingApproval, StepCancelled, StepIntended
from saga_mcp.domain.on_step import may_be_sent
from saga_mcp.domain.person_decisions import step_waiting
from saga_mcp.domain.saga_decisions import require_kind, require_open, still_lost
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_events import StepPlan
from saga_mcp.domain.values import Cancelled, JsonValue, StepState


def ask(
    saga: Saga,
    plan: StepPlan,
    *,
    opening: SagaOpened | None = None,
    seen: int = 0,
    received: tuple[int, ...] = (),
    expires_at: float = 0.0,
) -> tuple[Event, ...]:
    """Store a call for a person to allow, and open the saga with it where `opening` is given.

    Raises:
        SagaNotFound, SagaClosed, SagaAborted: the saga takes no steps.
        StepUnsettled, KindRefused: the call could not be sent even if it were allowed.
        ApprovalRejected: a person has forbidden this very call in this saga.
    """
    for step in saga.steps:
        rejected = step.cancelled == Cancelled.REJECTED
        if rejected and step.plan.same_call(plan) and step.plan.pair_hash == plan.pair_hash:
            raise ApprovalRejected(step.number, plan.tool, step.note)
    draft = Draft(saga)
    if opening is not None and not saga.opened:
        draft.add(opening)
    require_open(draft.saga)
    require_kind(draft.saga, plan)
    draft.add(
        StepAwaitingApproval(
            step=len(saga.steps) + 1,
            plan=plan,
            expires_at=expires_at,
            seen=seen,
            received=still_lost(saga, received),
        )
    )
    return draft.drafted()


def begin_allowed(saga: Saga, number: int, owner: str, capture: JsonValue) -> tuple[Event, ...]:
    """Record the intent of the stored call that a person allowed.

    Raises:
        StepUnsettled: it may not go out now, or went out already, or `owner` drives the saga no more.
    """
    step = saga.step(number)
    waits = step.state is StepState.AWAITING_APPROVAL and step.approved and may_be_sent(saga, step)
    if not waits or saga.driver != owner:
        message = f"Step {number} {step.tool} is not to be sent now."
        raise StepUnsettled(message, (number,))
    draft = Draft(saga)
    draft.add(StepIntended(step=number, plan=step.plan, owner=owner, capture=capture))
    return draft.drafted()


def give_up_allowed(saga: Saga, number: int, reason: str, driving: Driving) -> tuple[Event, ...]:
    """End a stored call that was allowed and by now cannot be sent: nothing was."""
    draft = Draft(saga)
    if draft.step(number).state is StepState.AWAITING_APPROVAL:
        draft.add(StepCancelled(step=number, why=Cancelled.REFUSED, note=reason))
    return draft.close(driving)


def expire(saga: Saga, now: float, driving: Driving) -> tuple[Event, ...]:
    """End the questions that nobody has answered in time.

    Args:
        saga: the saga.
        now: wall clock, in seconds since the epoch.
        driving: who decides.
    """
    draft = Draft(saga)
    for step in saga.loose_steps:
        if is_expired(step, now):
            draft.add(StepCancelled(step=step.number, why=Cancelled.EXPIRED))
    return draft.close(driving)


def is_expired(step: Step, now: float) -> bool:
    """Whether the step waits for an approval that comes too late now."""
    return step.state is StepState.AWAITING_APPROVAL and not step.approved and 0 < step.expires_at <= now


def approve(saga: Saga, number: int, *, by: str, note: str, now: float) -> tuple[Event, ...]:
    """A person allows exactly the stored call, once.

    Raises:
        ItemRefused: nothing waits there, or nobody answered in time.
    """
    step, _ = step_waiting(saga, number, "approve")
    if is_expired(step, now):
        message = f"{saga.id}.{number} was not allowed in time. Nothing was changed or sent. The agent can ask again."
        raise ItemRefused(message)
    return (StepApproved(step=number, by=by, note=note),)


def reject(saga: Saga, number: int, *, by: str, note: str, driving: Driving) -> tuple[Event, ...]:
    """A person forbids the stored call: it ends before anything was sent, and is not asked about again in this saga.

    Raises:
        ItemRefused: nothing waits there.
    """
    step_waiting(saga, number, "reject")
    draft = Draft(saga)
    draft.add(StepCancelled(step=number, why=Cancelled.REJECTED, by=by, note=note))
    return draft.close(driving)
