"""How sagas and attention items look: the same facts as JSON for programs and as text for people.

Pure. A tool's error and what a manual undo asks are shown, because a person decides on them; arguments, results and
captures only on request (S11.4).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from saga_mcp.cli.items import Waiting, verbs
from saga_mcp.cli.output import Output, age, count
from saga_mcp.cli.timeline import local_time, utc_time
from saga_mcp.domain.attention import Item, items, reported_state, reverted_words, summary, tally
from saga_mcp.domain.duties import busy
from saga_mcp.domain.holding import held
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import Cancelled, JsonObject, JsonValue, Kind, PartAction, PartState, Phase, StepState
from saga_mcp.edge.clean import escape
from saga_mcp.edge.outages import Held, waited_for, waits
from saga_mcp.edge.wording import waits_for, why
from saga_mcp.log.port import SagaRow

WIPED = "Its values were wiped."
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A saga in a list."""

    row: SagaRow
    blocks: int
    """Older undos that wait behind what waits for a person."""


def row_json(listed: Listed, alive: Mapping[str, int]) -> JsonObject:
    """A saga in a list; `alive` names the living processes by their owner ids."""
    row = listed.row
    return {
        "id": row.id,
        "state": row.state,
        "phase": row.phase,
        "purpose": row.purpose,
        "caller": row.caller,
        "steps": row.steps,
        "items": row.items,
        "busy": row.busy,
        "driver_pid": alive.get(row.driver) if row.busy else None,
        "blocks": listed.blocks,
        "opened_at": utc_time(row.opened_at),
        "updated_at": utc_time(row.updated_at),
        "reverted_by": [*row.reverted_by.split()],
    }


def saga_json(saga: Saga, *, values: bool = False) -> JsonObject:
    """One saga, whole."""
    counted = tally(saga)
    return {
        "id": saga.id,
        "realm": saga.realm,
        "state": reported_state(saga),
        "phase": saga.phase.value,
        "purpose": saga.purpose,
        "caller": saga.caller,
        "opener": saga.opener,
        "cause": saga.cause,
        "reason": saga.reason,
        "by": saga.aborted_by,
        "busy": busy(saga),
        "abort_wanted": saga.abort_wanted is not None,
        "reverts": saga.reverts,
        "reverted_by": [{"saga": other.revert, "steps": [*other.steps]} for other in saga.reverted],
        "savepoints": [mark.name for mark in saga.savepoints],
        "wiped": saga.wiped,
        "holds": [{"resource": resource, "step": step} for resource, step in held(saga).items()],
        "steps": [step_json(step, values=values) for step in saga.steps],
        "items": [item_json(item) for item in items(saga)],
        "counts": {
            "done": counted.done,
            "undone": counted.undone,
            "no_effect": counted.no_effect,
            "by_person": counted.by_person,
            "residue": counted.residue,
            "exempt": counted.exempt,
            "running": counted.running,
            "open": counted.open,
        },
        "summary": summary(saga),
    }


def step_json(step: Step, *, values: bool = False) -> JsonObject:
    """One step, with the parts of its undo."""
    shown: JsonObject = {
        "step": step.number,
        "undoes": step.undoes or None,
        "tool": step.tool,
        "kind": step.kind.value,
        "state": step.state.value,
        "running": step.running,
        "attempts": step.attempts,
        "step_key": step.plan.step_key,
        "caller": step.plan.caller,
        "person": step.person,
        "allowed_by": step.allowed_by,
        "error": step.error,
        "note": step.note,
        "build_error": step.build_error,
        "undo": None if step.parts is None else [_part_json(part, values=values) for part in step.parts],
    }
    if values:
        shown |= {"args": step.plan.args, "result": step.result, "capture": step.capture}
        shown |= {"left": step.image, "after": step.after}
    return shown


def _part_json(part: Part, *, values: bool) -> JsonObject:
    shown: JsonObject = {
        "part": part.id,
        "action": part.spec.action.value,
        "tool": part.spec.tool,
        "state": part.state.value,
        "attempts": part.tries,
        "error": part.error,
        "waits": "" if (outage := waited_for(part)) is None else waits(outage),
    }
    if values:
        shown |= {"args": part.spec.args | part.spec.late, "message": part.spec.message}
    return shown


def item_json(item: Item) -> JsonObject:
    """An attention item by itself."""
    return {
        "item": item.name,
        "saga": item.saga_id,
        "step": item.step,
        "kind": item.kind.value,
        "tool": item.tool,
        "urgency": item.urgency.value,
        "waits_for": waits_for(item.kind),
        "message": item.message,
        "do": [*verbs(item)],
    }


def waiting_json(each: Waiting) -> JsonObject:
    """An attention item in the list."""
    return item_json(each.item) | {"purpose": each.purpose, "since": utc_time(each.since), "blocks": each.blocks}


def saga_table(output: Output, found: Sequence[Listed], alive: Mapping[str, str], now: float) -> None:
    """Print sagas, one a row; what is held up, and who drives, only where there is something to say of it."""
    columns = {
        "SAGA": [each.row.id for each in found],
        "STATE": [each.row.state for each in found],
        "STEPS": [str(each.row.steps) for each in found],
        "ITEMS": [str(each.row.items) for each in found],
        "BLOCKS": [str(each.blocks or "") for each in found],
        "DRIVEN BY": [_driver(each.row, alive) for each in found],
        "AGE": [age(now - each.row.opened_at) for each in found],
        "REVERTED BY": [each.row.reverted_by for each in found],
        "PURPOSE": [each.row.purpose for each in found],
    }
    rare = {"BLOCKS", "DRIVEN BY", "REVERTED BY"}
    shown = {name: cells for name, cells in columns.items() if name not in rare or any(cells)}
    output.table([*shown], [*zip(*shown.values(), strict=True)])


def _driver(row: SagaRow, alive: Mapping[str, str]) -> str:
    if not row.busy:
        return ""
    return f"pid {alive[row.driver]}" if row.driver in alive else "nobody alive" if row.driver else "nobody yet"


def waiting_table(output: Output, found: Sequence[Waiting], now: float) -> None:
    """Print attention items, one a row."""
    output.table(
        ("ITEM", "AGE", "URGENCY", "WHAT", "PURPOSE", "BLOCKS", "DO"),
        [
            (
                each.item.name,
                age(now - each.since),
                each.item.urgency.value,
                what(each.item),
                each.purpose,
                str(each.blocks or ""),
                do(each.item),
            )
            for each in found
        ],
    )


def what(item: Item) -> str:
    """What waits, in a line: `charge: dead_letter (the undo failed for good ...): card expired`."""
    tool = f"{item.tool}: " if item.tool else ""
    message = f": {_cut(item.message)}" if item.message else ""
    return f"{tool}{item.kind.value} ({waits_for(item.kind)}){message}"


def do(item: Item) -> str:
    """The verbs that fit."""
    return " | ".join(verbs(item)) or f"show {item.saga_id} --timeline"


def saga_text(output: Output, saga: Saga, opened_at: float, *, values: bool, limit: int) -> None:
    """Print one saga, but for the line that sums it up; of its steps the newest `limit`."""
    purpose = f'  "{escape(saga.purpose)}"' if saga.purpose else ""
    opener = f", by {escape(saga.opener)}" if saga.opener else ""
    whose = f" for {escape(saga.caller)}{opener}" if saga.caller else ""
    output.text(f"{saga.id}{purpose}", f"opened {local_time(opened_at)} in realm {escape(saga.realm)}{whose}")
    if saga.reverted:
        output.text(f"{reverted_words(saga)}: `saga-mcp show {saga.reverted[-1].revert}` tells how far")
    if saga.phase in {Phase.COMPENSATING, Phase.COMPENSATED}:
        reason = f' ("{escape(saga.reason)}")' if saga.reason else ""
        output.text(f"undone because {why(saga, lambda tool: tool)}{reason}")
    if saga.savepoints:
        output.text(f"save-points: {', '.join(escape(mark.name) for mark in saga.savepoints)}")
    if holds := held(saga):
        each = (f'"{escape(resource)}" (step {step})' for resource, step in holds.items())
        output.text(f"holds until it ends: {', '.join(each)}")
    steps = saga.steps[-limit:]
    if steps:
        output.text("")
        if len(steps) < len(saga.steps):
            output.text(f"... {len(saga.steps) - len(steps)} older steps: --limit {len(saga.steps)}")
        output.table(
            ("STEP", "TOOL", "KIND", "STATE", "UNDO", "ERROR"),
            [
                (_number(step), step.tool, step.kind.value, _state(step), _undo_state(saga, step), _cut(step.error))
                for step in steps
            ],
        )
    if saga.wiped:
        output.text(WIPED)
    elif values:
        for step in steps:
            _values_text(output, step)
    if found := items(saga):
        output.text("")
        output.table(("ITEM", "WHAT", "DO"), [(item.name, what(item), do(item)) for item in found])
    output.text("")


def step_text(output: Output, step: Step, *, values: bool = False) -> None:
    """Print one step and the parts of its undo."""
    output.text(f"step {step.number} {escape(step.tool)} ({step.kind.value}): {_state(step)}")
    for label, text in (("error", step.error), ("undo", step.build_error), ("note", step.note)):
        if text:
            output.text(f"{label}: {escape(text)}")
    if step.parts:
        output.table(
            ("PART", "UNDO", "STATE", "ATTEMPTS", "LAST ERROR"),
            [
                (
                    part.id,
                    part.spec.tool or part.spec.action.value,
                    part.state.value,
                    str(part.tries),
                    _cut(part.error or part.spec.message),
                )
                for part in step.parts
            ],
        )
    if values:
        _values_text(output, step)


def _values_text(output: Output, step: Step) -> None:
    shown: list[tuple[str, JsonValue]] = [("args", step.plan.args), ("result", step.result), ("capture", step.capture)]
    shown += [("left", step.image), ("after", step.after)]
    for part in step.parts or ():
        if args := part.spec.args | part.spec.late:
            shown.append((f"undo {part.id} {part.spec.tool} args", args))
    for name, value in shown:
        if value is not None:
            output.text(f"step {step.number} {escape(name)} = {escape(json.dumps(value, ensure_ascii=False))}")


def _undo_state(saga: Saga, step: Step) -> str:
    """How far the undo of a step is."""
    if revert := saga.handed_to(step.number):
        return f"left to {revert}"
    if step.kind is not Kind.COMPENSABLE or step.state in {StepState.FAILED, StepState.CANCELLED, StepState.EXEMPT}:
        return "-"
    if step.parts is None:
        return "cannot be built"
    if step.state is StepState.COMPENSATED and step.person:
        return f"by {escape(step.person)}"
    return "; ".join(
        f"{part.spec.tool if part.spec.action is PartAction.CALL else part.spec.action.value} {_part_state(part)}"
        for part in step.parts
    )


_PARTS = {
    PartState.PENDING: "ready",
    PartState.INTENDED: "running",
    PartState.DONE: "done",
    PartState.UNDO_IN_DOUBT: "in doubt",
    PartState.WAITING: "waits for a person",
}


def _part_state(part: Part) -> str:
    outage = waited_for(part)
    return _PARTS[part.state] if outage is None else f"waits for upstream {outage.upstream}"


def _number(step: Step) -> str:
    return f"{step.number} (undoes {step.undoes})" if step.undoes else str(step.number)


def _state(step: Step) -> str:
    said = {
        "running": step.running,
        "landed late": step.late,
        f"allowed by {escape(step.allowed_by)}": bool(step.allowed_by),
        f"{step.cancelled} by {escape(step.person)}": step.cancelled == Cancelled.REJECTED,
    }
    flags = [word for word, holds in said.items() if holds]
    return f"{step.state.value} ({', '.join(flags)})" if flags else step.state.value


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def outage_lines(found: Iterable[Held]) -> list[str]:
    """What waits for an upstream, a line each; nobody has to settle it."""
    return [f"{each.name}  {each.words()}: {escape(_cut(each.error))}" for each in found]


def states(found: Iterable[SagaRow]) -> str:
    """`3 sagas: 1 active, 2 compensated`."""
    counted: dict[str, int] = {}
    for row in found:
        counted[row.state] = counted.get(row.state, 0) + 1
    parts = ", ".join(f"{number} {state}" for state, number in sorted(counted.items()))
    return f"{count(sum(counted.values()), 'saga')}{f': {parts}' if parts else ''}"
