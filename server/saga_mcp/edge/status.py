"""The view of a saga that `saga_status` shows: what happened, what an abort would do now, what the agent can do next.

A pure view of the domain's own answers, so that it cannot say anything else than the engine does. Argument values are
never shown (S11.4); the error that a tool gave is, because an agent that only sees "aborted" repeats its mistake
(CASES C26).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from saga_mcp.domain.attention import Item, is_residue
from saga_mcp.domain.duties import busy
from saga_mcp.domain.holding import held
from saga_mcp.domain.ownership import team_of
from saga_mcp.domain.rollback import Readiness, in_scope, readiness
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.values import (
    ItemKind,
    JsonObject,
    JsonValue,
    Kind,
    OnUndoFailure,
    PartAction,
    PartState,
    Phase,
    StepState,
)
from saga_mcp.edge import wording
from saga_mcp.edge.clean import escape, present
from saga_mcp.edge.look import Look
from saga_mcp.edge.outages import hangs, waited_for, waits
from saga_mcp.edge.replies import brief
from saga_mcp.edge.wording import Names
from saga_mcp.engine.port import Caller
from saga_mcp.log.port import SagaRow

T = TypeVar("T")

REPLY_BYTES = 16_000
"""Of a view, counted as JSON and as text that quotes this JSON; with the rest a reply stays under 20 kB."""
_LIST_BYTES = 2_500
_LONGEST_CAUSE = 400
_LONGEST_TEXT = 200


def saga_view(
    look: Look,
    names: Names,
    deadline: str = "",
    *,
    residues: Names = lambda _: "",
    after_step: int = 0,
    idles: str = "",
    overdue: Sequence[int] = (),
) -> JsonObject:
    """One saga, with the page of its steps that begins after `after_step`, and what becomes of it by itself.

    `idles`: why this server does nothing that is due now; empty: it does. `overdue`: steps that another process says
    nothing of.
    """
    saga = look.saga
    due = busy(saga)
    moves = [idles] if idles and due else wording.next_moves(look, names, busy=due, deadline=deadline)
    if overdue:
        moves = [hangs(overdue), *moves]
    items_page, items_left = _page(look.items, lambda item: _item(saga, item, names), _LIST_BYTES)
    plan_page, plan_left = _page([*_undo_plan(saga)], lambda each: _planned(each, names, residues), _LIST_BYTES)
    holds, holds_left = _page([*held(saga)], _cut, _LIST_BYTES // 2)
    marks, _ = _page(saga.savepoints[::-1], lambda mark: escape(mark.name), _LIST_BYTES // 2)
    view: JsonObject = {
        "saga_id": saga.id,
        **present(
            {
                "state": look.state,
                "phase": saga.phase.value,
                "summary": _cut(look.summary),
                "purpose": _cut(saga.purpose),
                "team": escape(team_of(saga.caller)),
                "opened_by": escape(saga.opener),
                "cause": _cause(saga, names),
                "reason": _cut(saga.reason),
                "abort_wanted": saga.abort_wanted is not None,
                "reverts": saga.reverts,
                "reverted_by": [other.revert for other in saga.reverted],
                "savepoints": marks,
                "wiped": saga.wiped,
                "holds": holds,
                "holds_not_shown": holds_left or None,
                "next": [*moves],
                "items": items_page,
                "items_not_shown": items_left or None,
            }
        ),
        "undo_plan": plan_page,
        **present({"undo_plan_not_shown": plan_left or None}),
    }
    view["saga"] = brief(look)
    steps, left = _page(
        saga.steps[after_step:], lambda step: _step(saga, step, names, overdue), REPLY_BYTES - _size(view)
    )
    return {**view, "steps": steps, **present({"next_after_step": after_step + len(steps) if left else None})}


def _cause(saga: Saga, names: Names) -> JsonValue:
    if not saga.cause:
        return None
    kind, _, detail = saga.cause.partition(":")
    step = saga.find_step(int(detail)) if kind == "step_failed" and detail.isdecimal() else None
    cause: JsonObject = {"code": saga.cause, "text": wording.why(saga, names)}
    if step is not None and step.error:
        cause["error"] = _cut(step.error, _LONGEST_CAUSE)
    return cause


def _step(saga: Saga, step: Step, names: Names, overdue: Sequence[int]) -> JsonObject:
    shown: JsonObject = {
        "step": step.number,
        "undoes": step.undoes or None,
        "tool": names(step.tool),
        "by": escape(step.plan.caller) if team_of(saga.caller) else "",
        "kind": step.kind.value,
        "state": step.state.value,
        "running": step.running,
        "overdue": step.number in overdue,
        "error": _cut(step.error),
        "undo": _undo_state(saga, step),
        "undo_error": _undo_error(step),
        "step_key": escape(step.plan.step_key),
        "settled_by": escape(step.person),
    }
    return present(shown)


def _undo_state(saga: Saga, step: Step) -> str:
    """How far the undo of a step is, in a few words."""
    if step.state is StepState.COMPENSATED:
        return "left as configured" if is_residue(step) else "done"
    if step.kind is not Kind.COMPENSABLE or step.settled or saga.phase is Phase.COMMITTED:
        return ""
    if step.parts is None:
        return "cannot be built"
    part = step.next_part
    if part is None:
        return "not known yet"
    pending = "next" if saga.phase is Phase.COMPENSATING and in_scope(saga, step) else "ready"
    words = {PartState.PENDING: pending, PartState.INTENDED: "running", PartState.WAITING: "waits for a person"}
    done = sum(other.state is PartState.DONE for other in step.parts)
    before = f"{done} of {len(step.parts)} done, " if done else ""
    outage = waited_for(part)
    return f"{before}{words.get(part.state, 'in doubt') if outage is None else waits(outage)}"


def _undo_error(step: Step) -> str:
    part = step.next_part
    if step.parts is None:
        return _cut(step.build_error)
    # What a manual part asks is a rendered message, which may hold argument values: only a person reads it.
    return _cut(part.error) if part is not None and part.item is not ItemKind.MANUAL_UNDO else ""


def _item(saga: Saga, item: Item, names: Names) -> JsonObject:
    return {
        "item": item.name,
        "kind": item.kind.value,
        "waits_for": wording.waits_for(item.kind),
        **present({"tool": names(saga.step(item.step).tool) if item.step else "", "urgency": item.urgency.value}),
    }


@dataclass(frozen=True, slots=True)
class _Planned:
    step: Step
    does: str
    only_after_a_person: bool = False


def _planned(planned: _Planned, names: Names, residues: Names) -> JsonObject:
    step = planned.step
    residue = _cut(residues(step.tool))
    shown: JsonObject = {"step": step.number, "tool": names(step.tool), "does": planned.does}
    return {**shown, **present({"only_after_a_person": planned.only_after_a_person, "not_restored": residue})}


def _undo_plan(saga: Saga) -> Iterator[_Planned]:
    """What an abort would do now, in order, and what it could not (S5.2, S6)."""
    if saga.final or saga.pivot_passed:
        return
    for step in reversed(saga.loose_steps):
        if step.running or step.state is StepState.INTENDED:
            yield _Planned(step, "wait for its end")
    halted = False
    for number in reversed(saga.undo_stack):
        step = saga.step(number)
        if step.settled or step.running or (saga.phase is Phase.COMPENSATING and not in_scope(saga, step)):
            continue
        yield _Planned(step, ", then ".join(_moves(step)), halted)
        halted = halted or (saga.on_undo_failure is OnUndoFailure.HALT and _needs_person(step))


def _moves(step: Step) -> list[str]:
    if step.state is StepState.IN_DOUBT and step.probe_due:
        return ["find out whether it happened", "undo it if it did"]
    if _stuck(step):
        return ["a person decides"]
    return [_move(step, part) for part in step.parts or () if part.state is not PartState.DONE]


def _move(step: Step, part: Part) -> str:
    guarded = step.plan.guarded and part.spec.action is PartAction.CALL and not part.registered
    return "undo, unless somebody else has changed it since" if guarded else _MOVES[part.spec.action]


def _needs_person(step: Step) -> bool:
    return _stuck(step) or any(_is_manual(part) for part in step.parts or () if part.state is not PartState.DONE)


def _stuck(step: Step) -> bool:
    return readiness(step) is Readiness.STUCK


def _is_manual(part: Part) -> bool:
    return part.spec.action is PartAction.MANUAL


_MOVES = {
    PartAction.CALL: "undo",
    PartAction.MANUAL: "a person undoes it",
    PartAction.LEAVE: "leave it as configured",
    PartAction.NOTHING: "nothing to undo",
}


def list_view(rows: Sequence[SagaRow], *, caller: Caller, now: float) -> JsonObject:
    """The open sagas, those of other conversations, of a team and of other callers marked (S1.4).

    Args:
        rows: in the order in which they are shown.
        caller: who looks.
        now: wall clock in seconds since the epoch, for ages only.
    """
    shown, left = _page(rows, lambda row: _row(row, caller, now), REPLY_BYTES)
    return {"next": [wording.list_moves(len(rows), left)], "sagas": shown, **present({"sagas_not_shown": left or None})}


def _row(row: SagaRow, caller: Caller, now: float) -> JsonObject:
    team = team_of(row.caller)
    return present(
        {
            "saga_id": row.id,
            "state": row.state,
            "purpose": _cut(row.purpose),
            "team": escape(team),
            "caller": escape(row.caller) if row.caller != caller.id and not team else "",
            "steps": row.steps,
            "items": row.items,
            "age_s": max(0, round(now - row.opened_at)),
            "busy": row.busy,
            "other_conversation": bool(caller.conversation) and row.conversation != caller.conversation,
        }
    )


def _page(entries: Sequence[T], shown: Callable[[T], JsonValue], longest: int) -> tuple[list[JsonValue], int]:
    """Return the first entries as they are shown, as far as they fit into `longest` bytes, and how many did not.

    One always fits. Those that do not are not looked at.
    """
    page: list[JsonValue] = []
    for entry in entries:
        view = shown(entry)
        longest -= _size(view)
        if page and longest < 0:
            break
        page.append(view)
    return page, len(entries) - len(page)


def _size(value: JsonValue) -> int:
    """Bytes that `value` takes in a reply: once as JSON, and once as a text that holds this JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return len(text.encode()) + len(json.dumps(text, ensure_ascii=False).encode()) + 4


def _cut(text: str, longest: int = _LONGEST_TEXT) -> str:
    shown = escape(text)
    return shown if len(shown) <= longest else f"{shown[:longest]}..."
