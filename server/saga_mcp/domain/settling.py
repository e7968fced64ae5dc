"""What a late answer, a probe or a person changes about a step, in every phase (SEMANTICS.md S3.4, S3.6, S5.5)."""

from __future__ import annotations

from dataclasses import replace

from saga_mcp.domain.events import StepSettled
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.transition import put_step, require
from saga_mcp.domain.undo_parts import bind, untouched
from saga_mcp.domain.values import Kind, Phase, SettledBy, StepState


def settle(saga: Saga, step: Step, event: StepSettled) -> Saga:
    """Return the saga with what is now known of `step`.

    Raises:
        IllegalTransition: there was no doubt about the step, or this evidence cannot settle it.
    """
    require(step.state is not StepState.INTENDED or not step.running, "the first answer is still awaited")
    if event.by is not SettledBy.PROBE:
        # A late answer is the call's end; a person vouches for it.
        step = replace(step, running=False, overdue=False, end_known=True)
    if event.by is SettledBy.PERSON:
        step = replace(step, person=event.person, note=event.note)
    return put_step(saga, _landed(saga, step, event) if event.landed else _absent(saga, step, event))


def _landed(saga: Saga, step: Step, event: StepSettled) -> Step:
    match step.state:
        case StepState.IN_DOUBT | StepState.INTENDED:
            require(step.state is StepState.IN_DOUBT or step.exhausted, "the step is not in doubt")
            return _succeeded(step, event)
        case StepState.SUCCEEDED:
            require(step.parts is None and event.by is SettledBy.PERSON, "the step is known to have succeeded")
            return _succeeded(step, event)
        case StepState.COMPENSATING:
            require(step.landed is not True or step.parts is None, "the step is known to have succeeded")
            if untouched(step):
                return replace(_succeeded(step, event), state=StepState.COMPENSATING)
            # The undo that is under way may have met nothing: it has to run once more.
            return replace(step, landed=True, result=event.result, redo=True)
        case StepState.FAILED | StepState.COMPENSATED | StepState.EXEMPT:
            require(not step.late and step.landed is not True, "the step is known to have succeeded")
            return _late(saga, step, event)
        case StepState.AWAITING_APPROVAL | StepState.CANCELLED:
            require(condition=False, why="nothing was sent")
            return step  # pragma: no cover - require raises


def _succeeded(step: Step, event: StepSettled) -> Step:
    settled = replace(
        step, state=StepState.SUCCEEDED, landed=True, exhausted=False, probes_ended=False, result=event.result
    )
    return bind(settled, event.parts, event.build_error)


def _late(saga: Saga, step: Step, event: StepSettled) -> Step:
    """An effect nobody counted on any more (dtm: "hanging")."""
    known = replace(step, landed=True, result=event.result)
    if step.state is StepState.FAILED and saga.phase in {Phase.ACTIVE, Phase.COMPENSATING}:
        return _succeeded(known, event)
    if step.state is StepState.EXEMPT and saga.phase is not Phase.COMMITTED:
        return known  # a person decided that the effect, if any, stays
    if event.parts is not None and untouched(step):
        known = bind(known, event.parts, event.build_error)
    return replace(known, late=True)


def _absent(saga: Saga, step: Step, event: StepSettled) -> Step:
    if step.state is StepState.COMPENSATING:
        require(step.landed is None, "what the step did is known")
        if untouched(step):
            return replace(step, state=StepState.FAILED, landed=False, order=step.order or saga.seq)
        return replace(step, landed=False)
    require(step.state is StepState.IN_DOUBT, f"the step is {step.state}")
    require(not step.running, "the call may still land")
    require(
        event.by is not SettledBy.LATE_ANSWER or step.unknown_attempts <= 1,
        "a refusal of one attempt says nothing about the others",
    )
    if step.kind is Kind.RETRIABLE:
        # It cannot fail: it is sent again.
        return replace(step, state=StepState.INTENDED, landed=None, unknown_attempts=0, probes_ended=False)
    return replace(step, state=StepState.FAILED, landed=False)
