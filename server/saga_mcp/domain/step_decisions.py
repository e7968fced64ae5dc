"""Decisions on what became of a forward action (SEMANTICS.md S3, S4). Pure; legal whatever the saga went through.

Each function states one observation: it landed, it did not, the wait ended, the call was lost, a probe spoke. What
that means depends on the state the saga is in when the observation is stored, which may not be the state in which the
call was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from saga_mcp.domain.draft import Draft, Driving, whole
from saga_mcp.domain.events import (
    Event,
    InvariantViolated,
    RollbackReopened,
    StepAttempted,
    StepAttemptEnded,
    StepExhausted,
    StepFailed,
    StepFellInDoubt,
    StepObserved,
    StepOverdue,
    StepProbesEnded,
    StepRunEnded,
    StepSettled,
    StepSucceeded,
)
from saga_mcp.domain.fencing import may_send_again
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.on_saga import reopens
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import Effect, JsonValue, Kind, Phase, SettledBy, StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A forward action that took effect."""

    result: JsonValue
    undo: BoundUndo
    kept: JsonValue = None
    """What its tool needs besides the result to give the same answer once more."""
    violated: tuple[str, ...] = ()
    """Invariants that do not hold with this result (S9.3)."""
    image: JsonValue = None
    """What it left behind, where a probe found it; otherwise that is read later (`observed`)."""
    after: JsonValue = None


def landed(saga: Saga, number: int, landing: Landing, driving: Driving) -> tuple[Event, ...]:
    """The call answered with success, in time or late."""
    draft = Draft(saga)
    step = saga.step(number)
    undo = landing.undo
    if step.state is StepState.INTENDED and step.running:
        draft.add(
            StepSucceeded(
                step=number,
                result=landing.result,
                kept=landing.kept,
                parts=undo.parts,
                build_error=undo.build_error,
            )
        )
        judge(draft, number, landing.violated, driving)
        return draft.close(driving)
    _settle_landed(draft, number, landing, SettledBy.LATE_ANSWER, driving)
    return draft.close(driving)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was read right after a step."""

    undo: BoundUndo
    """Bound once more, with what was read."""
    image: JsonValue = None
    after: JsonValue = None


def is_observed(step: Step) -> bool:
    """Whether the call has succeeded, and what it left behind is being read."""
    return step.state is StepState.SUCCEEDED and step.running and step.plan.looks_after and not step.overdue


def observed(saga: Saga, number: int, observation: Observation, driving: Driving) -> tuple[Event, ...]:
    """What the step left behind was read, or could not be (S6.7)."""
    draft = Draft(saga)
    if is_observed(saga.step(number)):
        undo = observation.undo
        draft.add(
            StepObserved(
                step=number,
                parts=undo.parts,
                build_error=undo.build_error,
                image=observation.image,
                after=observation.after,
            )
        )
    return draft.close(driving)


def _may_be_late(step: Step) -> bool:
    """Whether the step is being undone, or was, on a person's word: an effect that lands only now is a late one."""
    return step.vouched and not step.late and step.state in {StepState.COMPENSATING, StepState.COMPENSATED}


def _settle_landed(draft: Draft, number: int, landing: Landing, by: SettledBy, driving: Driving) -> None:
    step = draft.step(number)
    undo = landing.undo
    if step.landed is True and not (by is SettledBy.LATE_ANSWER and _may_be_late(step)):
        if step.running and by is SettledBy.LATE_ANSWER:
            draft.add(StepRunEnded(step=number, end_known=True))
        if (
            undo.parts is None
            or step.parts is not None
            or step.state not in {StepState.SUCCEEDED, StepState.COMPENSATING}
        ):
            return  # otherwise this result shows how to undo what could not be undone so far
    draft.add(
        StepSettled(
            step=number,
            landed=True,
            by=by,
            result=landing.result,
            kept=landing.kept,
            image=landing.image,
            after=landing.after,
            parts=undo.parts,
            build_error=undo.build_error,
        )
    )
    if reopens(draft.saga, draft.step(number)):
        draft.add(RollbackReopened(step=number))
    elif draft.step(number).state is StepState.SUCCEEDED:
        judge(draft, number, landing.violated, driving)


def judge(draft: Draft, number: int, violated: tuple[str, ...], driving: Driving) -> None:
    """Record which rules the result of a step violates, and what follows from it (S9.3)."""
    for name in violated:
        if draft.saga.phase is Phase.ACTIVE:
            draft.add(InvariantViolated(name=name, step=number))
            draft.abort(whole(f"invariant:{name}", driving.driver, by="policy"), driving.bind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """An attempt that did not succeed, and has ended."""

    effect: Effect
    error: str
    sent: bool = True
    """False: neither this attempt nor one before it was sent. Nothing went wrong with what the saga does."""
    more: bool = False
    """The retry policy allows another attempt."""


def missed(saga: Saga, number: int, miss: Miss, driving: Driving) -> tuple[Event, ...]:
    """The call answered with an error; the answer is its known end.

    A call that registered undos for parts of its work has done some of it, whatever its error claims.
    """
    draft = Draft(saga)
    step = saga.step(number)
    if step.registered:
        miss = replace(miss, effect=Effect.UNKNOWN)
    if step.state is StepState.INTENDED and step.running:
        _first_miss(draft, number, miss, driving)
    elif step.state is StepState.IN_DOUBT and step.running:
        if miss.effect is Effect.NONE and step.unknown_attempts <= 1:
            draft.add(StepSettled(step=number, landed=False, by=SettledBy.LATE_ANSWER, note=miss.error))
            _abort_if_sent(draft, number, miss, driving)
        else:
            draft.add(StepRunEnded(step=number, end_known=True, error=miss.error))
            _abort_unless_probed(draft, number, driving)
    elif step.running:
        draft.add(StepRunEnded(step=number, end_known=True, error=miss.error))
    elif _overrules_person(step, miss):
        draft.add(StepSettled(step=number, landed=False, by=SettledBy.LATE_ANSWER, note=miss.error))
        draft.abort_on_error(f"step_failed:{number}", driving)
    return draft.close(driving)


def _overrules_person(step: Step, miss: Miss) -> bool:
    """Whether a person said "it happened" of a call that now says itself that it did not."""
    told = step.vouched and step.state is StepState.SUCCEEDED and step.kind is Kind.COMPENSABLE
    return told and miss.effect is Effect.NONE and step.unknown_attempts <= 1


def _first_miss(draft: Draft, number: int, miss: Miss, driving: Driving) -> None:
    step = draft.step(number)
    again = miss.more and draft.saga.phase is Phase.ACTIVE and draft.saga.abort_wanted is None
    known_absent = miss.effect is Effect.NONE and step.unknown_attempts == 0
    if (known_absent or step.plan.idempotent) and (again or step.kind is Kind.RETRIABLE):
        draft.add(StepAttemptEnded(step=number, effect=miss.effect, error=miss.error))
        if not again:
            draft.add(StepExhausted(step=number, error=miss.error))
    elif known_absent:
        draft.add(StepFailed(step=number, error=miss.error))
        _abort_if_sent(draft, number, miss, driving)
    else:
        undo = driving.bind(step)
        draft.add(
            StepFellInDoubt(
                step=number,
                reason="error",
                end_known=True,
                parts=undo.parts,
                build_error=undo.build_error,
                error=miss.error,
            )
        )
        _abort_unless_probed(draft, number, driving)


def _abort_if_sent(draft: Draft, number: int, miss: Miss, driving: Driving) -> None:
    """A call that never went out is no reason to undo the others: the agent may make it again."""
    if miss.sent:
        draft.abort_on_error(f"step_failed:{number}", driving)


def _abort_unless_probed(draft: Draft, number: int, driving: Driving) -> None:
    """Under `on_error = "abort"` a doubt that no probe can settle aborts at once (S4.2)."""
    step = draft.step(number)
    if step.state is StepState.IN_DOUBT and not step.probe_due and step.kind is not Kind.RETRIABLE:
        draft.abort_on_error(f"step_failed:{number}", driving)


def goes_on(saga: Saga, number: int, *, reason: str, driving: Driving) -> tuple[Event, ...]:
    """The call is not waited for any more, and counts as running: nobody knows that it has ended (S3.3)."""
    step = saga.step(number)
    if step.state is not StepState.INTENDED or not step.running:
        return ()
    undo = driving.bind(step)
    return (StepFellInDoubt(step=number, reason=reason, running=True, parts=undo.parts, build_error=undo.build_error),)


def run_lost(saga: Saga, number: int, *, reason: str, end_known: bool, driving: Driving) -> tuple[Event, ...]:
    """The call will bring no answer any more: its process died, its transport was lost, or its hard deadline passed."""
    draft = Draft(saga)
    step = saga.step(number)
    if step.state is StepState.INTENDED and step.running:
        undo = driving.bind(step)
        draft.add(
            StepFellInDoubt(
                step=number,
                reason=reason,
                end_known=end_known,
                parts=undo.parts,
                build_error=undo.build_error,
                error=reason,
            )
        )
    elif step.running:
        # One that has succeeded was only looked at: nothing went wrong with it.
        error = step.error if step.landed else step.error or reason
        draft.add(StepRunEnded(step=number, end_known=end_known, error=error))
    _abort_unless_probed(draft, number, driving)
    return draft.close(driving)


def overdue(saga: Saga, number: int, driving: Driving) -> tuple[Event, ...]:
    """A call that cannot be stopped passed its hard deadline: it is never undone by itself (S3.3)."""
    draft = Draft(saga)
    step = saga.step(number)
    if step.state is not StepState.INTENDED and step.running and not step.overdue:
        draft.add(StepOverdue(step=number))
        if step.state is StepState.IN_DOUBT and step.kind is not Kind.RETRIABLE:
            draft.abort_on_error(f"step_failed:{number}", driving)
    return draft.close(driving)


def abort_after_wait(saga: Saga, number: int, driving: Driving) -> tuple[Event, ...]:
    """`probe_for_s` after the time limit without an answer: the policy's abort begins, and waits for it (S4.2)."""
    draft = Draft(saga)
    step = saga.step(number)
    # One that has ended meanwhile is probed, or was aborted at once: its time is counted from its end.
    if step.state is StepState.IN_DOUBT and step.running and step.kind is not Kind.RETRIABLE:
        draft.abort_on_error(f"step_failed:{number}", driving)
    return draft.close(driving)


def attempt_again(saga: Saga, number: int, owner: str) -> tuple[Event, ...]:
    """Record a further attempt before it is sent; none where the saga closed, or the step was settled meanwhile."""
    step = saga.step(number)
    if saga.phase is not Phase.ACTIVE or saga.abort_wanted is not None:
        return ()
    if step.resendable and step.state in {StepState.INTENDED, StepState.IN_DOUBT}:
        return (StepAttempted(step=number, owner=owner),)
    return ()


def send_again(saga: Saga, number: int, owner: str) -> tuple[Event, ...]:
    """The same for whoever has the step in hand or drives its saga; none where that is another one by now."""
    return attempt_again(saga, number, owner) if may_send_again(saga, saga.step(number), owner) else ()


def give_up_retriable(saga: Saga, number: int, error: str) -> tuple[Event, ...]:
    """A retriable step used up its attempts: a person is asked (S7.2)."""
    step = saga.step(number)
    if step.exhausted or step.running or step.state not in {StepState.INTENDED, StepState.IN_DOUBT}:
        return ()
    return (StepExhausted(step=number, error=error),)


def probed_landed(saga: Saga, number: int, landing: Landing, driving: Driving) -> tuple[Event, ...]:
    """A probe found the effect: that settles at once (S3.4); of a call elsewhere no more than that is waited for."""
    draft = Draft(saga)
    step = saga.step(number)
    if step.state in {StepState.IN_DOUBT, StepState.COMPENSATING}:
        if step.running and step.plan.outlives_us:
            draft.add(StepRunEnded(step=number, end_known=False))
        _settle_landed(draft, number, landing, SettledBy.PROBE, driving)
    return draft.close(driving)


def probed_absent(saga: Saga, number: int, driving: Driving) -> tuple[Event, ...]:
    """A probe that began late enough after the call's end found no effect (S3.4)."""
    draft = Draft(saga)
    step = saga.step(number)
    if step.state is StepState.IN_DOUBT and not step.running:
        draft.add(StepSettled(step=number, landed=False, by=SettledBy.PROBE))
        if step.kind is not Kind.RETRIABLE:
            draft.abort_on_error(f"step_failed:{number}", driving)
    return draft.close(driving)


def probes_ended(saga: Saga, number: int, driving: Driving) -> tuple[Event, ...]:
    """No probe gave a verdict in the time it had (S4.2)."""
    draft = Draft(saga)
    step = saga.step(number)
    if step.probe_due and not step.running:
        draft.add(StepProbesEnded(step=number))
        _abort_unless_probed(draft, number, driving)
    return draft.close(driving)
