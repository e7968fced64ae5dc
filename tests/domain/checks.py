"""What must hold in every state and on every move, said once more and independently of the code under test.

What is due and what is stuck is not asked of `rollback`: a fault there must not hide itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.domain.walk import Edge, Walk

from saga_mcp.domain import events as e
from saga_mcp.domain.attention import NEEDS_ATTENTION, items, reported_state
from saga_mcp.domain.duties import busy
from saga_mcp.domain.results import last_succeeded
from saga_mcp.domain.rollback import step_item
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import (
    Kind,
    OnError,
    OnUndoFailure,
    PartAction,
    PartState,
    Phase,
    SettledBy,
    StepState,
)

SETTLED = {StepState.FAILED, StepState.COMPENSATED, StepState.EXEMPT, StepState.CANCELLED}
UNSETTLED_PIVOT = {StepState.INTENDED, StepState.IN_DOUBT}


def check_state(walk: Walk, saga: Saga) -> None:
    """Note everything that is wrong with one state."""
    for what in wrong_with(saga):
        walk.blame(what, saga)


def plainly_last(saga: Saga, before: float) -> tuple[Step, ...]:
    """The last step of each tool, by order key, among those that succeeded and are not undone: S9.3 word by word."""
    done = [step for step in saga.steps if step.state is StepState.SUCCEEDED and step.order < before]
    last = {step.tool: step for step in sorted(done, key=lambda step: step.order)}
    return tuple(sorted(last.values(), key=lambda step: step.order))


def check_edge(walk: Walk, edge: Edge) -> None:
    """Note everything that is wrong with one move."""
    for what in wrong_move(edge):
        walk.blame(what, edge.before, edge.event)


def wrong_with(saga: Saga) -> Iterator[str]:
    """What is wrong with one state."""
    if not saga.opened:
        return
    yield from _wrong_counters(saga)
    flying = [(step, part) for step in saga.steps for part in step.parts or () if in_flight(part)]
    if len(flying) > 1:
        yield "two undos at once"
    if any(step.running for step, _ in flying):
        yield "an undo runs while its forward action does"
    if flying and saga.phase is not Phase.COMPENSATING:
        yield f"an undo runs in a saga that is {saga.phase}"
    if saga.phase is Phase.COMMITTED and any(_unsettled_in_commit(step) for step in saga.steps):
        yield "committed with something unsettled"
    if saga.phase is Phase.COMPENSATED and any(step.state not in SETTLED for step in saga.steps):
        yield "compensated with something unsettled"
    reported = reported_state(saga)
    if reported == Phase.COMPENSATED and any(step.late for step in saga.steps):
        yield "reported compensated with a late effect"
    if saga.phase in {Phase.COMPENSATING, Phase.COMPENSATED} and any(_passed_pivot(saga, step) for step in saga.steps):
        yield "the rollback crosses a pivot"
    if (reported == NEEDS_ATTENTION) != any(hopeless(saga, step) for step in saga.steps):
        yield f"reported {reported}"
    yield from _wrong_revert(saga)
    if len({item.step for item in items(saga)}) != len(items(saga)):
        yield "two items of one step"


def _wrong_counters(saga: Saga) -> Iterator[str]:
    count = {
        "loose": tuple(step.number for step in saga.steps if step.loose),
        "unheard": tuple(step.number for step in saga.steps if step.reply_lost),
        "unended": sum(step.state is StepState.INTENDED for step in saga.steps),
        "in_doubt": sum(step.state is StepState.IN_DOUBT for step in saga.steps),
        "running": sum(step.running and not step.overdue for step in saga.steps),
        "undoing": next((s.number for s in saga.steps if any(in_flight(part) for part in s.parts or ())), 0),
    }
    for name, number in count.items():
        if getattr(saga, name) != number:
            yield f"the counter `{name}` is {getattr(saga, name)}, not {number}"
    due = sorted((s for s in saga.steps if s.order and not _settled(s)), key=lambda s: s.order)
    if [s.number for s in due] != [n for n in saga.undo_stack if not _settled(saga.step(n))]:
        yield "the undo stack does not hold what is to be undone, in order"
    if saga.undo_stack and _settled(saga.step(saga.undo_stack[-1])):
        yield "the top of the undo stack is settled"
    if list(saga.undo_stack) != sorted(saga.undo_stack, key=lambda n: saga.step(n).order):
        yield "the undo stack is out of order"
    quiet = [s for s in saga.steps if s.number not in saga.loose]
    if any(step_item(saga, s) is not None or s.running or hopeless(saga, s) for s in quiet):
        yield "a step that nobody looks at is due for something"
    if list(saga.loose) != sorted({s.number for s in saga.steps if s.loose}):
        yield "the loose steps are not the ones that are"
    for bound in {saga.next_seq, *(step.intent_seq for step in saga.steps)}:
        if last_succeeded(saga, bound) != plainly_last(saga, bound):
            yield "the last results are not those of what succeeded and is not undone"
    yield from _wrong_pivot(saga)


def _wrong_pivot(saga: Saga) -> Iterator[str]:
    pivots = [step for step in saga.steps if step.kind is Kind.PIVOT]
    passed = {step.number for step in pivots if step.state is StepState.SUCCEEDED}
    unsettled = {step.number for step in pivots if step.state in UNSETTLED_PIVOT}
    exempt = {step.number for step in pivots if step.state is StepState.EXEMPT and step.landed}
    if saga.pivot not in (passed | exempt if passed else exempt | unsettled or {0}) and (
        passed or unsettled or saga.pivot
    ):
        yield f"the pivot is {saga.pivot}"
    if saga.abort_wanted is not None and passed:
        yield "an abort is wanted past the pivot"


def _wrong_revert(saga: Saga) -> Iterator[str]:
    taken = [number for other in saga.reverted for number in other.steps]
    if len(set(taken)) != len(taken):
        yield "two sagas undo one step"
    if taken and saga.phase is not Phase.COMMITTED:
        yield f"reverted, and {saga.phase}"
    if saga.reverts and (saga.phase is Phase.COMMITTED or saga.savepoints):
        yield "a revert is kept"
    if any((step.undoes > 0) != (saga.reverts != "") for step in saga.steps):
        yield "a step is neither done here nor taken over by a revert"


def in_flight(part: Part) -> bool:
    """Whether an undo attempt was sent and has not ended."""
    return part.state is PartState.INTENDED or part.running


def _settled(step: Step) -> bool:
    return step.state in SETTLED and not step.late


def _unsettled_in_commit(step: Step) -> bool:
    return step.running or step.state in {
        StepState.INTENDED,
        StepState.IN_DOUBT,
        StepState.COMPENSATING,
        StepState.AWAITING_APPROVAL,
    }


def _passed_pivot(saga: Saga, step: Step) -> bool:
    return step.kind is Kind.PIVOT and step.state is StepState.SUCCEEDED and step.intent_seq > saga.target


def hopeless(saga: Saga, step: Step) -> bool:
    """S2.2: the step may have an unsettled effect, and nothing is running or due that could settle it."""
    if step.late:
        return True
    if _settled(step) or step.state is StepState.AWAITING_APPROVAL or saga.final:
        return False
    if step.overdue or step.exhausted or step.host_awaited:
        return True
    if step.running or step.state is StepState.INTENDED:
        return False
    doubt = step.state is StepState.IN_DOUBT
    probed = doubt and step.plan.has_probe and not step.probes_ended
    if saga.phase is Phase.ACTIVE:
        resent = step.kind is Kind.RETRIABLE and step.plan.idempotent
        aborted = saga.on_error is OnError.ABORT and step.kind is Kind.COMPENSABLE and not _some_pivot(saga)
        return doubt and not (probed or resent or aborted)
    if step.intent_seq <= saga.target or probed:
        return False
    if doubt and not ((step.plan.safe_if_absent or step.plan.guarded) and step.end_known):
        return True
    part = next((p for p in step.parts or () if p.state is not PartState.DONE), None)
    return part is None or _hopeless_part(part)


def _some_pivot(saga: Saga) -> bool:
    return any(
        step.kind is Kind.PIVOT
        and (step.state in UNSETTLED_PIVOT or step.state is StepState.SUCCEEDED or step.number == saga.pivot)
        for step in saga.steps
    )


def _hopeless_part(part: Part) -> bool:
    if part.state is PartState.WAITING or part.overdue:
        return True
    if part.state is not PartState.UNDO_IN_DOUBT or part.running:
        return False
    return not (part.spec.idempotent or (part.spec.has_probe and not part.probes_ended))


def _wrong_wipe(before: Saga, event: e.Event) -> Iterator[str]:
    if isinstance(event, e.SagaWiped) and (busy(before) or items(before) or not before.final):
        yield "values were wiped that may be needed"
    if before.wiped and isinstance(event, e.UndoIntended):
        yield "an undo began although its arguments are gone"


def wrong_move(edge: Edge) -> Iterator[str]:
    """What is wrong with one move."""
    before, event, after = edge.before, edge.event, edge.after
    yield from _wrong_handover(before, event)
    if before.final and after.phase is not before.phase and not isinstance(event, e.RollbackReopened):
        yield f"{before.phase} was left"
    if after.final and not before.final and not isinstance(event, e.SagaCommitted | e.RollbackFinished):
        yield f"{after.phase} was set by {type(event).__name__}"
    if before.phase is Phase.COMMITTED and after.phase is not Phase.COMMITTED:
        yield "committed was left"
    yield from _wrong_wipe(before, event)
    yield from _wrong_wait(edge)
    match event:
        case e.UndoIntended(step=number) | e.UndoSucceeded(step=number):
            yield from _wrong_undo(before, before.step(number), event)
        case e.StepFailed(step=number):
            if before.step(number).unknown_attempts:
                yield "failed after an attempt of unknown outcome"
        case e.StepSettled(step=number, landed=False, by=by):
            step = before.step(number)
            if step.state is StepState.IN_DOUBT and by is SettledBy.LATE_ANSWER and step.unknown_attempts > 1:
                yield "failed by a refusal after an attempt of unknown outcome"
            if by is SettledBy.PROBE and step.running:
                yield "a probe settled absent a call that still runs"
        case e.StepAttempted(step=number):
            step = before.step(number)
            doubtful = step.unknown_attempts or step.state is StepState.IN_DOUBT
            if doubtful and not step.plan.idempotent:
                yield "sent again on a guess"
            if step.running:
                yield "two attempts at once"
        case e.RollbackFinished():
            left = [s for s in before.steps if s.intent_seq > before.target and not _settled(s)]
            if left:
                yield "finished with something left"
        case _:
            pass


def _wrong_wait(edge: Edge) -> Iterator[str]:
    """A step waits for its machine until anything happens to it, and only where it has one and nothing runs."""
    number = getattr(edge.event, "step", 0)
    step = edge.after.find_step(number)
    if isinstance(edge.event, e.StepHostAwaited):
        if step is None or not step.plan.host or step.running or step.undo_in_flight or _settled(step):
            yield "waits for a machine for nothing"
    elif step is not None and step.host_awaited:
        yield "something happened, and it still waits for its machine"


def _wrong_handover(saga: Saga, event: e.Event) -> Iterator[str]:
    if isinstance(event, e.SagaReverted) and any(_is_undone(saga.step(number)) for number in event.steps):
        yield "an undo that has begun was handed over, under a key that was used"


def _is_undone(step: Step) -> bool:
    begun = any(part.tries or part.state is not PartState.PENDING for part in step.parts or ())
    return begun or step.state is not StepState.SUCCEEDED or step.kind is not Kind.COMPENSABLE


def _wrong_undo(saga: Saga, step: Step, event: e.UndoIntended | e.UndoSucceeded) -> Iterator[str]:
    if isinstance(event, e.UndoIntended):
        yield from _wrong_turn(saga, step)
        return
    part = next(part for part in step.parts or () if part.id == event.part)
    if part.state is PartState.PENDING and part.spec.action in {PartAction.CALL, PartAction.MANUAL}:
        yield from _wrong_turn(saga, step)
        if not (event.unneeded and step.plan.guarded):
            yield "done, and nothing was sent"


def _wrong_turn(saga: Saga, step: Step) -> Iterator[str]:
    if saga.phase is not Phase.COMPENSATING or step.intent_seq <= saga.target:
        yield "an undo outside its rollback"
    if any(other.running and not other.overdue for other in saga.steps) or step.running:
        yield "an undo overtakes a forward action"
    if _settled(step) or step.kind is not Kind.COMPENSABLE:
        yield "undone what was not to be undone"
    if step.state is StepState.IN_DOUBT:
        if not ((step.plan.safe_if_absent or step.plan.guarded) and step.end_known):
            yield "undone blindly"
        if step.plan.has_probe and not step.probes_ended:
            yield "undone before it was probed"
    newer = [s for s in saga.steps if s.order > step.order and not _settled(s)]
    if saga.on_undo_failure is OnUndoFailure.CONTINUE:
        newer = [s for s in newer if not hopeless(saga, s)]
    if newer:
        yield "not last in, first out"
    if any(s.kind is Kind.PIVOT and s.late and s.order > step.order for s in saga.steps):
        yield "undone across a pivot"
