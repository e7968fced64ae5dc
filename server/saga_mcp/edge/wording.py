"""What models read of a saga: the last text block of a reply, and what control tools say (WORDING.md).

The texts are written to stop what models are known to do: scatter one task over several sagas, never commit, call again
after "still running", loop after an abort, undo by hand. Pure: a state in, a sentence out. Whatever people or tools put
into a text is escaped here, so callers need not remember to.
"""

from collections.abc import Callable
from typing import TypeAlias

from saga_mcp.domain.attention import Tally, reverted_words
from saga_mcp.domain.pausing import Pause, is_allowed
from saga_mcp.domain.repeats import OnRepeat, is_asked
from saga_mcp.domain.saga_decisions import describe_cause
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import ItemKind, Kind, PartAction, Phase, StepState
from saga_mcp.edge.clean import escape
from saga_mcp.edge.look import Look
from saga_mcp.edge.outages import held

Names: TypeAlias = Callable[[str], str]
"""From a tool's name in the config to the name agents see."""

_CLOSED = (
    "This id is closed. Do not undo anything yourself. Do not repeat the same call: fix the cause and start over with "
    "saga_begin, or tell the user."
)
_CLOSED_ON_REQUEST = "This id is closed. Do not undo anything yourself. Start over with saga_begin, or tell the user."
_THIRD_TIME = "Third time: stop and tell the user."
_NOT_BY_HAND = "Tell the user. Do not try to repair it with other tools."
_FINISH = "Finish: saga_commit keeps all, saga_abort undoes all."
_IDLE = " It was idle for long: finish it."
_MOST_NAMED = 20
_ROUNDED_FROM = 100_000
_ASKED = "Until then saga_commit is refused."
_FINISH_FORWARD = "It can no longer be undone. Finish: saga_commit."


# --- the last text block of a reply -----------------------------------------------------------------------------------


def trailing(
    look: Look,
    number: int,
    names: Names,
    *,
    deadline: str = "",
    long: bool = False,
    third_time: bool = False,
    was_idle: bool = False,
) -> str:
    """The last text block of a reply of step `number`, or of the saga as a whole where it is 0.

    Args:
        look: the saga.
        number: of the step.
        names: as agents see them.
        deadline: what becomes of the saga if nobody goes on with it.
        long: it is time to say again how to finish.
        third_time: it was aborted by the same error for the third time.
        was_idle: it had been idle for long when the call came.
    """
    idle = _IDLE if number and look.plainly_open and (was_idle or look.saga.idle) else ""
    words = _state_words(look, number, names, long=long or idle != "")
    return f"[saga {look.saga.id}{_sentences(f'{words}{idle}', deadline, _THIRD_TIME if third_time else '')}]"


def _sentences(first: str, *others: str) -> str:
    more = [other for other in others if other]
    return " ".join([first if first.endswith(".") or not more else f"{first}.", *more])


def ends_after(seconds: float, *, kept: bool) -> str:
    """What becomes of an open saga that is left alone."""
    return f"{'Kept' if kept else 'Undone'} after {_length(seconds)} without a step."


def flagged_after(seconds: float) -> str:
    """What becomes of one that is only shown to people."""
    return f"After {_length(seconds)} without a step a person is asked."


def _length(seconds: float) -> str:
    """A length of time in the largest unit that says it exactly."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds % unit == 0:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:g} s" if seconds < _ROUNDED_FROM else f"{seconds:.0f} s"


def _state_words(look: Look, number: int, names: Names, *, long: bool) -> str:
    saga, stuck = look.saga, look.needs_person
    if saga.reverts:
        return _revert_words(look, names)
    match saga.phase:
        case Phase.COMPENSATED | Phase.COMPENSATING if stuck:
            return f" NOT FULLY UNDONE: {_waiting(look, names)}. {_NOT_BY_HAND}"
        case Phase.COMPENSATED:
            closed = _CLOSED_ON_REQUEST if saga.cause == "agent" else _CLOSED
            return f" UNDONE: {why(saga, names)}; {_undone(look)}. {closed}"
        case Phase.COMPENSATING:
            return f" BEING UNDONE: {why(saga, names)}; {_so_far(look, names)}"
        case Phase.COMMITTED if stuck:
            return f" COMMITTED, and {_waiting(look, names)}. {_NOT_BY_HAND}"
        case Phase.COMMITTED if saga.reverted:
            return f" COMMITTED, and {reverted_words(saga)}. saga_status of that one tells how far"
        case Phase.COMMITTED:
            return f" COMMITTED: everything is kept ({look.counts})"
        case Phase.ACTIVE if stuck:
            return f" NEEDS A PERSON: {_waiting(look, names)}. {_NOT_BY_HAND}"
        case Phase.ACTIVE:
            return _open(saga, saga.find_step(number), names, long=long)


def _revert_words(look: Look, names: Names) -> str:
    """How far a saga is that undoes a committed one."""
    reverts = f" REVERTS {look.saga.reverts}"
    if look.needs_person:
        return f"{reverts}, NOT FULLY UNDONE: {_waiting(look, names)}. {_NOT_BY_HAND}"
    if look.saga.phase is Phase.COMPENSATED:
        return f"{reverts}: {_undone(look)}. Do not undo anything yourself."
    return f"{reverts}: {_so_far(look, names)}"


def _so_far(look: Look, names: Names) -> str:
    waits = "" if look.held is None else f" {_held_words(*look.held, names)}"
    return f"{undone_so_far(look.tally)} so far.{waits} {_GOING_ON}"


_GOING_ON = "Closed to new calls. saga_status tells the end."


def _open(saga: Saga, step: Step | None, names: Names, *, long: bool) -> str:
    if saga.abort_wanted is not None:
        return f": to be aborted once {_named(saga.step(saga.pivot), names)} is settled. saga_status tells."
    if step is None or not (long or step.state is not StepState.SUCCEEDED):
        return f" open, {plural(len(saga.steps), 'step')}"
    finish = _ASKED if is_asked(step) else _FINISH_FORWARD if saga.pivot_passed else _FINISH
    return f": {_step_words(step, names, past_pivot=saga.pivot_passed)}. {finish}"


def _step_words(step: Step, names: Names, *, past_pivot: bool) -> str:
    match step.state:
        case StepState.SUCCEEDED:
            undo = "" if past_pivot or step.kind is not Kind.COMPENSABLE else f", {undo_words(step)}"
            return f"step {step.number} done{undo}"
        case StepState.FAILED:
            return f"step {_named(step, names)} failed and had no effect"
        case StepState.IN_DOUBT:
            return f"step {_named(step, names)} is unknown: it may have happened; do not call it again"
        case StepState.AWAITING_APPROVAL if not step.approved:
            return f"step {_named(step, names)} waits for a person to allow it; nothing of it was sent"
        case _:
            return f"step {_named(step, names)} is still running; do not call it again"


def undo_words(step: Step) -> str:
    """What can be said of the undo of a step that succeeded."""
    if step.parts is None:
        return "but its undo cannot be built: an abort would need a person"
    if any(part.spec.action is PartAction.MANUAL for part in step.parts):
        return "undo needs a person"
    if step.parts and all(part.spec.action is PartAction.LEAVE for part in step.parts):
        return "left as it is by an abort"
    return "undo ready"


def _undone(look: Look) -> str:
    count = look.tally
    if count.residue or count.by_person or count.exempt or count.done:
        return look.counts
    match len(look.saga.steps):
        case 0:
            return "no step was made, nothing is open"
        case 1:
            return "the step is undone or had no effect, nothing is open"
        case steps:
            return f"all {steps} steps are undone or had no effect, nothing is open"


def progress(count: Tally) -> tuple[int, int]:
    """How far a rollback has come: steps that are settled, and all that may have had an effect."""
    settled = count.undone + count.by_person + count.residue + count.exempt
    return settled, settled + count.open + count.running


def undone_so_far(count: Tally) -> str:
    """E.g. `3 of 12 undone, 1 stays`."""
    _, steps = progress(count)
    stays = count.residue + count.exempt
    return f"{count.undone + count.by_person} of {steps} undone{f', {stays} stays' if stays else ''}"


def why(saga: Saga, names: Names) -> str:
    """Why a saga is being undone, or was, in the agent's names."""
    kind, _, detail = saga.cause.partition(":")
    step = saga.find_step(int(detail)) if kind == "step_failed" and detail.isdecimal() else None
    if step is not None:
        unknown = step.state is StepState.IN_DOUBT or (step.landed is None and step.unknown_attempts)
        what = "has an unknown outcome" if unknown else "answered too late" if step.landed else "failed"
        return f"step {_named(step, names)} {what}"
    match kind:
        case "invariant":
            broken = saga.find_step(saga.violated_by)
            after = "" if broken is None else f" after step {_named(broken, names)}"
            return f'the rule "{escape(detail)}" does not hold{after}'
        case "agent":
            return "saga_abort was called"
        case "revert":
            return f"the committed saga {detail} is reverted"
        case _:
            return f"{escape(describe_cause(saga))} aborted it"


def _waiting(look: Look, names: Names) -> str:
    waiting = [item for item in look.items if item.step and item.kind is not ItemKind.APPROVAL]
    first = waiting[0]
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return f"{escape(names(first.tool))} waits for a person (item {first.name}){more}"


def _named(step: Step, names: Names) -> str:
    return f"{step.number} {escape(names(step.tool))}"


def plural(count: int, noun: str) -> str:
    """E.g. `1 step`, `3 steps`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def several_opened(ids: tuple[str, ...]) -> str:
    """Said where parallel calls without an id opened a saga each (S1.5)."""
    return (
        f"[Calls without saga_id opened {len(ids)} sagas: {', '.join(ids)}. Each has to be finished on its own. "
        "Pass a saga_id from now on.]"
    )


def replayed(number: int, *, key: bool, on_repeat: OnRepeat) -> str:
    """Said where a call got the stored answer of an equal one, and how to do it once more (S8.3)."""
    if key:
        again = "a second one needs another step_key"
    elif on_repeat is OnRepeat.RUN:
        again = "if a second one is meant, call it again now"
    else:
        again = "this tool does the same thing only once"
    return f"[replayed: step {number} did this already and its answer is repeated here; nothing was sent; {again}]"


def unfit_answer(tool: str) -> str:
    """Said before a success that breaks its tool's own output schema, which strict clients would throw away."""
    return (
        f"Not an error: {escape(tool)} has done its work. Do not call it again. Its answer is not what its output "
        "schema promises, so it is given as text."
    )


def exact(integers: dict[str, str]) -> str:
    """Said where a host may have rounded integers of the result (CASES C51)."""
    listed = ", ".join(f"{escape(pointer) or 'result'} = {digits}" for pointer, digits in integers.items())
    return f"[exact integers of the result: {listed}]"


# --- control tools ----------------------------------------------------------------------------------------------------


def begun(saga: Saga, deadline: str) -> str:
    """The answer of saga_begin."""
    if saga.steps:
        steps = plural(len(saga.steps), "step")
        return f"[saga {saga.id} open, {_sentences(f'{steps}. {_FINISH}{_idle(saga)}', deadline)}]"
    said = f"Pass this saga_id to every call of the task. {_FINISH}"
    return f"[saga {saga.id} open. {_sentences(said, deadline)}]"


def marked(saga: Saga, name: str, deadline: str) -> str:
    """The answer of saga_savepoint."""
    said = f'save-point "{escape(name)}" set after {plural(len(saga.steps), "step")}.{_idle(saga)}'
    return f"[saga {saga.id} open: {_sentences(said, deadline)}]"


def back_at(look: Look, name: str, deadline: str) -> str:
    """The answer of an abort that reached its save-point."""
    said = f'undone back to save-point "{escape(name)}". {look.summary}. {_FINISH}'
    return f"[saga {look.saga.id} open: {_sentences(said, deadline)}]"


def abort_deferred(saga: Saga, names: Names) -> str:
    """The answer of an abort that has to wait for a pivot (S7.1)."""
    step = _named(saga.step(saga.pivot), names)
    return (
        f"Not aborted yet: step {step} cannot be undone and is not settled. The wish is stored: if the step turns out "
        "to have had no effect, the abort runs by itself. Do not call it again; use saga_status."
    )


# --- what waits for a person, and what comes next ---------------------------------------------------------------------


def next_moves(look: Look, names: Names, *, busy: bool, deadline: str = "") -> list[str]:
    """What the agent can do now, best first, and what becomes of the saga otherwise."""
    saga = look.saga
    if look.needs_person:
        return ["Tell the user what waits for a person, and stop. Do not repair it with other tools."]
    match saga.phase:
        case Phase.COMMITTED if saga.reverted:
            return [f"Nothing here: it is {reverted_words(saga)}. saga_status of that one tells how far."]
        case Phase.COMMITTED:
            return ["Nothing: everything is kept. saga_begin opens another saga."]
        case Phase.COMPENSATED if saga.reverts:
            return [f"Tell the user: {saga.reverts} is reverted."]
        case Phase.COMPENSATED:
            return ["Fix the cause and start over once with saga_begin, or tell the user."]
        case Phase.COMPENSATING if look.held is not None:
            return [f"{_held_words(*look.held, names)} The id takes no calls."]
        case Phase.COMPENSATING if waiting := [each.words() for each in held(saga)]:
            return [f"Tell the user: {'; '.join(waiting)}. The rest is undone after it. The id takes no calls."]
        case Phase.COMPENSATING:
            return ["Wait, then saga_status: the server is undoing it. The id takes no calls."]
        case Phase.ACTIVE if look.held is not None:
            return [_held_words(*look.held, names), "Meanwhile other calls may go on.", "saga_abort undoes all."]
        case Phase.ACTIVE if busy:
            return ["Wait, then saga_status: something is running or being looked into. Do not call it again."]
        case Phase.ACTIVE:
            return [move for move in (*_open_moves(look), deadline) if move]


def _held_words(step: Step, pause: Pause, names: Names) -> str:
    paused = escape(pause.tool)
    what = "allowed call" if is_allowed(step) else "undo"
    return f"Tell the user: the {what} of step {_named(step, names)} waits, because {pause.by} has paused {paused}."


def _open_moves(look: Look) -> list[str]:
    saga = look.saga
    doubts = [step.number for step in saga.loose_steps if step.state is StepState.IN_DOUBT]
    if doubts:
        return [f"saga_abort, or ask the user: step {_numbers(doubts)} may have happened."]
    asked = [step.number for step in saga.loose_steps if is_asked(step)]
    if asked:
        waits = f"Tell the user: step {_numbers(asked)} waits for a person to allow it; it then runs by itself."
        return [waits, "Meanwhile other calls may go on; saga_commit waits for it.", "saga_abort undoes all."]
    failed: list[int] = []
    if look.tally.no_effect:
        failed = [step.number for step in saga.steps if step.state is StepState.FAILED and not step.accepted]
    accept = f" with accept_failed=[{_numbers(failed)}]" if failed else ""
    moves = ["Go on: pass this saga_id to the next call.", f"saga_commit{accept} keeps all."]
    moves = [_idle(saga).lstrip(), *moves] if saga.idle else moves
    return moves if saga.pivot_passed else [*moves, "saga_abort undoes all."]


def _idle(saga: Saga) -> str:
    return _IDLE if saga.idle else ""


def list_moves(count: int, left: int) -> str:
    """What the agent can do with the list of its open sagas, of which some may be left out."""
    if not count:
        return "No saga is open. saga_begin opens one."
    said = "Finish each: saga_commit keeps all, saga_abort undoes all. saga_status with its saga_id shows its steps."
    return f"{said} The others, the oldest: `saga-mcp list --open`." if left else said


def _numbers(numbers: list[int]) -> str:
    return ", ".join([*map(str, numbers[:_MOST_NAMED]), *(["..."] if len(numbers) > _MOST_NAMED else [])])


def waits_for(kind: ItemKind) -> str:
    """What a person is asked at an attention item."""
    return _WAITS[kind]


_WAITS = {
    ItemKind.IN_DOUBT: "find out whether it happened",
    ItemKind.UNDO_IN_DOUBT: "find out whether the undo happened",
    ItemKind.DEAD_LETTER: "the undo failed for good: undo it by hand or try again",
    ItemKind.TARGET_CHANGED: "the tool lives elsewhere now: decide where to undo",
    ItemKind.NEEDS_HOST: "start a server on the machine where it was done, or decide without it",
    ItemKind.MANUAL_UNDO: "only a person can undo this",
    ItemKind.CANNOT_BUILD: "the undo cannot be built: undo it by hand",
    ItemKind.GUARD_CONFLICT: "it was changed since: overwrite or keep",
    ItemKind.RETRIABLE_EXHAUSTED: "it has to succeed and does not",
    ItemKind.LATE_EFFECT: "it took effect after its undo: undo it by hand",
    ItemKind.INVARIANT: "a rule does not hold any more",
    ItemKind.APPROVAL: "approve or reject the call",
    ItemKind.IDLE: "commit or abort the forgotten saga",
    ItemKind.QUARANTINE: "the log of this saga cannot be read",
    ItemKind.OUTBOX_PARKED: "its alerts were not acknowledged: mend the receiver, then retry",
}
