"""The two moves every transition is made of: refuse, or put a changed step back with the saga's counters kept true."""

from __future__ import annotations

from operator import itemgetter

from saga_mcp.domain.copying import replace
from saga_mcp.domain.errors import IllegalTransition
from saga_mcp.domain.state import Acknowledged, Saga, Step
from saga_mcp.domain.values import Kind, StepState
from saga_mcp.domain.vector import Vector


def require(condition: bool, why: str) -> None:  # noqa: FBT001 - a guard reads best with its condition first
    """Refuse the transition unless `condition` holds.

    Raises:
        IllegalTransition: it does not; `why` is its message.
    """
    if not condition:
        raise IllegalTransition(why)


def step_of(saga: Saga, number: int) -> Step:
    """The step an event speaks of.

    Raises:
        IllegalTransition: there is no such step.
    """
    step = saga.find_step(number)
    if step is None:
        message = f"there is no step {number}"
        raise IllegalTransition(message)
    return step


def add_step(saga: Saga, step: Step, *, seen: int = 0) -> Saga:
    """The saga after an event that begins a step: what idled goes on.

    Args:
        saga: the saga before the event.
        step: the step as the event leaves it; one that waited for an approval has its place already.
        seen: the `seq` up to which the caller knows what happened (S8.1).
    """
    old = saga.find_step(step.number)
    return _with_step(saga, old, step, idle=False, acknowledged=_went_on(saga.acknowledged, step.plan.caller, seen))


def put_step(saga: Saga, step: Step) -> Saga:
    """The saga after an event that changed this step."""
    return _with_step(saga, saga.step(step.number), step, idle=saga.idle, acknowledged=saga.acknowledged)


def heard(saga: Saga, step: Step) -> Saga:
    """The saga with it noted that the step's lost answer has reached the caller after all; no event of its own."""
    return replace(
        saga,
        steps=saga.steps.replaced(step.number - 1, replace(step, reply_lost=False)),
        unheard=_listed(saga.unheard, step.number, belongs=False),
    )


def _with_step(saga: Saga, old: Step | None, new: Step, *, idle: bool, acknowledged: Acknowledged) -> Saga:
    """The saga's counters, undo stack and pivot follow without a rescan (S2.4), in one copy."""
    if new.host_awaited and old is not None and old.host_awaited:
        new = replace(new, host_awaited=False)  # something happened, so that wait is over
    steps = saga.steps.appended(new) if old is None else saga.steps.replaced(new.number - 1, new)
    pivot = _pivot(saga, old, new)
    passed = pivot == new.number and new.state is StepState.SUCCEEDED
    return replace(
        saga,
        seq=saga.next_seq,
        steps=steps,
        unended=saga.unended + _is(new, StepState.INTENDED) - _is(old, StepState.INTENDED),
        in_doubt=saga.in_doubt + _is(new, StepState.IN_DOUBT) - _is(old, StepState.IN_DOUBT),
        running=saga.running + _runs(new) - _runs(old),
        undo_stack=_restack(saga.undo_stack, steps, old, new),
        succeeded=_ranked(saga.succeeded, steps, old, new),
        loose=_listed(saga.loose, new.number, new.loose),
        unheard=_listed(saga.unheard, new.number, new.reply_lost),
        pivot=pivot,
        undoing=_undoing(saga, new),
        # Nothing can be taken back any more: a wish that waited for the pivot is void (S7.1).
        abort_wanted=None if passed else saga.abort_wanted,
        idle=idle,
        acknowledged=acknowledged,
        has_secrets=saga.has_secrets or bool(new.plan.secret),
    )


def _went_on(acknowledged: Acknowledged, caller: str, seen: int) -> Acknowledged:
    known = dict(acknowledged)
    return acknowledged if seen <= known.get(caller, 0) else tuple({**known, caller: seen}.items())


def _is(step: Step | None, state: StepState) -> int:
    return int(step is not None and step.state is state)


def _runs(step: Step | None) -> int:
    return int(step is not None and step.running and not step.overdue)


def _listed(numbers: tuple[int, ...], number: int, belongs: bool) -> tuple[int, ...]:  # noqa: FBT001 - one of three alike
    """The list of steps with a quality, ascending, after one of them changed."""
    if belongs == (number in numbers):
        return numbers
    if belongs:
        return tuple(sorted((*numbers, number)))
    return tuple([other for other in numbers if other != number])


def _restack(stack: Vector[int], steps: Vector[Step], old: Step | None, new: Step) -> Vector[int]:
    was_open = old is not None and old.order > 0 and not old.settled
    is_open = new.order > 0 and not new.settled
    if is_open and not was_open:
        stack = _push(stack, steps, new, first_time=old is None or old.order == 0)
    keep = len(stack)
    while keep and steps[stack[keep - 1] - 1].settled:
        keep -= 1
    return stack if keep == len(stack) else stack.shortened(keep)


def _ranked(
    ranks: tuple[tuple[str, Vector[int]], ...], steps: Vector[Step], old: Step | None, new: Step
) -> tuple[tuple[str, Vector[int]], ...]:
    """What succeeded, by tool, after one step changed. What lies below another one may be there in vain."""
    has_succeeded = new.state is StepState.SUCCEEDED
    if _is(old, StepState.SUCCEEDED) == has_succeeded:
        return ranks
    others = dict(ranks)
    stack = others.pop(new.tool, Vector[int]())
    if has_succeeded:
        newest = not stack or steps[stack[-1] - 1].order < new.order
        stack = _push(stack, steps, new, first_time=newest)
    keep = len(stack)
    while keep and steps[stack[keep - 1] - 1].state is not StepState.SUCCEEDED:
        keep -= 1
    if keep:
        others[new.tool] = stack.shortened(keep)
    return tuple(sorted(others.items(), key=itemgetter(0)))


def _push(stack: Vector[int], steps: Vector[Step], step: Step, *, first_time: bool) -> Vector[int]:
    if not first_time and step.number in stack:
        return stack
    keep = len(stack)
    # The newest goes on top. A late effect comes back to its old place, and a step that is taken over to its own.
    while keep and steps[stack[keep - 1] - 1].order > step.order:
        keep -= 1
    if keep == len(stack):
        return stack.appended(step.number)
    return Vector[int].of((*stack[:keep], step.number, *stack[keep:]))


def _pivot(saga: Saga, old: Step | None, new: Step) -> int:
    if new.kind is not Kind.PIVOT:
        return saga.pivot
    if new.state is StepState.SUCCEEDED:
        return new.number
    if new.state in {StepState.INTENDED, StepState.IN_DOUBT}:
        # Another one that counted as failed may have landed late: that one rules.
        return saga.pivot if saga.pivot != new.number and saga.pivot_passed else new.number
    if new.state is StepState.EXEMPT and old is not None and old.state is StepState.SUCCEEDED:
        return saga.pivot
    return 0 if saga.pivot == new.number else saga.pivot


def _undoing(saga: Saga, new: Step) -> int:
    if new.undo_in_flight:
        return new.number
    return 0 if saga.undoing == new.number else saga.undoing
