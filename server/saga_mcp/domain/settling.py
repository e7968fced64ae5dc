"""What a late answer, a probe or a person changes about a step, in every phase (SEMANTICS.md S3.4, S3.6, S5.5)."""

from __future__ import annotations

from saga_mcp.domain.copying import replace
from saga_mcp.domain.events import StepSettled
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.transition import put_step, require
from saga_mcp.domain.undo_parts import bind, next_generation, rebuild
from saga_mcp.domain.values import Kind, Phase, SettledBy, StepState


def settle(saga: Saga, step: Step, event: StepSettled) -> Saga:
    """Return the saga with what is now known of `step`.

    Raises:
        IllegalTransition: there was no doubt about the step, or this evidence cannot settle it.
    """
    require(step.state is not StepState.INTENDED or not step.running, "the first answer is still awaited")
    was_overdue = step.overdue
    overruled = step.vouched and event.by is SettledBy.LATE_ANSWER
    if event.by is not SettledBy.PROBE:
        # A late answer is the call's end; a person vouches for it.
        vouched = event.by is SettledBy.PERSON and (step.running or step.vouched)
        step = replace(
            step,
            running=_looks_yet(step, event),
            overdue=False,
            end_known=True,
            vouched=vouched,
            note=event.note or step.note,
        )
    if event.landed and step.state is StepState.SUCCEEDED and was_overdue and event.by is SettledBy.PERSON:
        return put_step(saga, step)  # a probe had found the effect; a person says that the thread has ended
    return put_step(
        saga,
        _landed(saga, step, event, overruled=overruled) if event.landed else _absent(step, event, overruled=overruled),
    )


def _looks_yet(step: Step, event: StepSettled) -> bool:
    """Whether the call has ended, but what it left behind is still to be read (S6.7)."""
    late_success = event.landed and event.by is SettledBy.LATE_ANSWER and step.state is StepState.IN_DOUBT
    return late_success and step.running and step.plan.looks_after


def _landed(saga: Saga, step: Step, event: StepSettled, *, overruled: bool) -> Step:
    match step.state:
        case StepState.IN_DOUBT | StepState.INTENDED:
            return _succeeded(saga, step, event)
        case StepState.SUCCEEDED:
            return _rebuilt(step, event)
        case StepState.COMPENSATING:
            if step.landed is True and not overruled:
                return _rebuilt(step, event)
            # What was undone so far may have met nothing: it has to run once more, now that there is something to undo.
            known = _known(step, event)
            return replace(known, redo=True) if step.undo_in_flight else next_generation(known)
        case StepState.FAILED | StepState.COMPENSATED | StepState.EXEMPT:
            # What a person said of a call that still ran is no evidence of when it landed.
            proven = step.landed is True and not overruled
            require(not step.late and not proven, "the step is known to have succeeded")
            return _late(saga, step, event)
        case StepState.AWAITING_APPROVAL | StepState.CANCELLED:
            require(condition=False, why="nothing was sent")
            return step  # pragma: no cover - require raises


def _succeeded(saga: Saga, step: Step, event: StepSettled) -> Step:
    settled = replace(
        step,
        state=StepState.SUCCEEDED,
        landed=True,
        exhausted=False,
        probes_ended=False,
        order=step.order or saga.next_seq,
        result=event.result,
        kept=event.kept,
        image=event.image,
        after=event.after,
    )
    return bind(settled, event.parts, event.build_error)


def _rebuilt(step: Step, event: StepSettled) -> Step:
    """A result that came later may show how to undo what could not be undone so far (S6.1)."""
    require(step.unbuilt, "the step is known to have succeeded")
    if event.parts is None:
        return replace(step, build_error=event.build_error)
    return rebuild(replace(step, result=event.result), event.parts, event.build_error)


def _known(step: Step, event: StepSettled) -> Step:
    """The step with its result, and the undo that fits it for when it has to run again."""
    return replace(step, landed=True, result=event.result, main=step.main if event.parts is None else event.parts)


def _late(saga: Saga, step: Step, event: StepSettled) -> Step:
    """An effect nobody counted on any more (dtm: "hanging")."""
    if step.state is StepState.FAILED and _joins(saga, step):
        return _succeeded(saga, step, event)
    known = _known(step, event)
    # Exempt: a person decided that the effect, if any, stays. A committed saga shows it all the same.
    return replace(known, late=step.state is not StepState.EXEMPT or saga.phase is Phase.COMMITTED)


def _joins(saga: Saga, failed: Step) -> bool:
    """Whether a step that landed after all simply takes its place among the others."""
    if failed.kind is Kind.PIVOT:
        return saga.phase is Phase.ACTIVE
    # After a roll-back to a save-point its absence was part of what the agent was told.
    return saga.phase in {Phase.ACTIVE, Phase.COMPENSATING} and not failed.accepted


def _absent(step: Step, event: StepSettled, *, overruled: bool) -> Step:
    if step.state is StepState.COMPENSATING:
        require(step.landed is None, "what the step did is known")
        return replace(step, landed=False) if step.undo_in_flight else _never_landed(step)
    corrected = step.state is StepState.SUCCEEDED and overruled and step.kind is Kind.COMPENSABLE
    require(step.state is StepState.IN_DOUBT or corrected, f"the step is {step.state}")
    require(not step.running, "the call may still land")
    require(
        event.by is not SettledBy.LATE_ANSWER or step.unknown_attempts <= 1,
        "a refusal of one attempt says nothing about the others",
    )
    if step.kind is Kind.RETRIABLE:
        # It cannot fail: it is sent again.
        return replace(step, state=StepState.INTENDED, landed=None, unknown_attempts=0, probes_ended=False)
    return _never_landed(step)


def _never_landed(step: Step) -> Step:
    return replace(step, state=StepState.FAILED, landed=False, redo=False)
