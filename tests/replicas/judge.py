"""The judge: what the world shows, held against what is recorded and what people were told.

Pure, and apart from the product: it reads the file that the tools wrote to, and knows what undoes what.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.replicas import judge_people
from tests.replicas.readings import UNDONE_BY, Case, Reading, base, step_tool
from tests.replicas.said import Evidence, Said
from tests.world.reading import READS, Line

from saga_mcp.domain.attention import is_residue
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import OnUndoFailure, Phase, StepState

SENT_AGAIN = frozenset({"book", "notify"})
"""Forward actions that may be sent again in doubt."""
ONCE = frozenset({"refund", "unwire", "unsign", "recall"})
"""Undos that may not."""
NOT_SENT = frozenset(
    {
        *("saga_not_found", "saga_closed", "saga_aborted", "savepoint_not_found", "step_unsettled", "pivot_passed"),
        *("kind_refused", "resource_held", "capture_failed", "tool_paused", "repeat_refused", "key_reused"),
        *(
            "limit_reached",
            "upstream_down",
            "log_unavailable",
            "invalid_arguments",
            "saga_not_yours",
            "approval_rejected",
        ),
    }
)
"""Answers that say that nothing was sent."""
_DONE = re.compile(r"(\d+) done")
_UNDONE = re.compile(r"(\d+) undone")


def judge(evidence: Evidence) -> list[str]:
    """Everything that is wrong."""
    return [problem for check in _CHECKS for problem in check(Case(evidence))]


def _every_effect_has_a_record(case: Case) -> Iterator[str]:
    for line in case.all.lines:
        found = case.steps.get(base(line.key))
        if line.tool == "balance":
            continue
        if found is None:
            yield f"{line.event} {line.tool} of {line.key} belongs to no step"
        elif found[1].tool.partition(".")[2] != step_tool(line.tool):
            yield f"{line.event} {line.tool} of {line.key} belongs to a step of {found[1].tool}"


def _nothing_is_sent_again_on_a_guess(case: Case) -> Iterator[str]:
    sent = [line for line in case.all.lines if line.event == "sent" and line.tool not in READS]
    forward = Counter((line.tool, line.key) for line in sent if line.tool not in UNDONE_BY)
    for (tool, key), times in forward.items():
        if times > 1 and tool not in SENT_AGAIN:
            yield f"{tool} of {key} was sent {times} times"
    undos: dict[str, list[Line]] = {}
    for line in sent:
        if line.tool in ONCE and base(line.key) in case.steps:
            undos.setdefault(line.key, []).append(line)
    for key, lines in undos.items():
        saga, step = case.steps[base(key)]
        # One that said that it did nothing may be sent again, and one of which a person said so.
        free = sum(line.mode == "err_before" for line in lines) + case.person_said(saga, step, "retry")
        if len(lines) - 1 > free:
            yield f"{lines[0].tool} of {case.name(key)} was sent {len(lines)} times, {free} of them for a reason"
    for key, lines in case.world.undos.items():
        done = [line for line in lines if line.tool in ONCE]
        if len(done) > 1:
            yield f"{done[0].tool} of {key} took place {len(done)} times"


def _what_sagas_say_is_so(case: Case) -> Iterator[str]:
    for saga in case.all.sagas.values():
        if not saga.final:
            yield f"{saga.id} ended as {saga.phase}"
        for key, step in case.keys(saga):
            stands, name = case.world.stands(key), case.name(key)
            if step.state is StepState.EXEMPT or step.tool.endswith(".balance"):
                continue
            if saga.phase is Phase.COMMITTED and step.state is StepState.SUCCEEDED:
                if not stands:
                    yield f"{name} is committed and does not stand"
            elif stands and not is_residue(step):
                yield f"{name} is {step.state} and stands, its saga is {saga.phase}"


def _slots_hold_what_was_kept(case: Case) -> Iterator[str]:
    now: dict[str, str | None] = {}
    for line in case.all.lines:
        if line.event == "did" and line.tool in {"put", "put_back"}:
            now[line.args["slot"]] = line.args["text"]
    kept: dict[str, str] = {}
    exempt: set[str] = set()
    for saga in case.all.sagas.values():
        for step in sorted(saga.steps, key=lambda step: step.order):
            if step.tool == "shelf.put":
                slot = str(step.plan.args["slot"])
                if step.state is StepState.SUCCEEDED:
                    kept[slot] = str(step.plan.args["text"])
                elif step.state is StepState.EXEMPT:
                    exempt.add(slot)
    for slot, text in now.items():
        if slot not in exempt and kept.get(slot) != text:
            yield f"slot {slot} holds {text} in place of {kept.get(slot)}"


def _undone_in_order(case: Case) -> Iterator[str]:
    """What ended before another step started is undone after it (S5.2)."""
    last_undo = {base(line.key): at for at, line in enumerate(case.all.lines) if line.event == "did" and line.undo_key}
    first_undo: dict[str, int] = {}
    for at, line in enumerate(case.all.lines):
        if line.event == "sent" and line.undo_key:
            first_undo.setdefault(base(line.key), at)
    for saga in case.all.sagas.values():
        if saga.on_undo_failure is not OnUndoFailure.HALT:
            continue
        keyed = [*case.keys(saga)]
        for key, step in keyed:
            for other_key, other in keyed:
                if key not in first_undo or other.intent_seq <= step.order or other.late or not step.order:
                    continue
                if case.world.ever_landed(other_key) and last_undo.get(other_key, -1) > first_undo[key]:
                    yield f"{case.name(key)} was undone before {other.number} {other.tool}"


def _answers_are_true(case: Case) -> Iterator[str]:
    times = Counter(_identity(said) for said in case.all.said)
    for said in case.all.said:
        if said.trouble:
            continue
        alone = said.asked.tag and times[_identity(said)] == 1  # else it may be another sending of it that was sent
        sent = [line for line in case.all.lines if line.event == "sent" and _bears(line, said.asked.tag)]
        if alone and said.code in NOT_SENT and sent:
            yield f"refused, and sent: {said.told()}"
        if said.saga_id in case.all.sagas:
            yield from _answer_is_true(case, said, case.all.sagas[said.saga_id])


def _identity(said: Said) -> tuple[str, str]:
    return said.asked.tool, said.asked.tag


def _bears(line: Line, tag: str) -> bool:
    """Whether a call with that tag wrote this line."""
    values = [line.args.get(name) for name in ("item", "cents", "to", "text")]
    values += [str(item).partition("-")[0] for item in line.args.get("items", ())]
    return line.tool not in UNDONE_BY and tag in [str(value).partition("-")[0] for value in values]


def _answer_is_true(case: Case, said: Said, saga: Saga) -> Iterator[str]:
    then = Reading(case.all.lines, said.ended)
    if said.asked.tag and not said.is_error:
        key = saga.key_of(said.step)
        if not any(_bears(line, said.asked.tag) for line in then.forwards.get(key, [])):
            yield f"answered with success, and not done: {said.told()}"
    if said.state not in {"compensated", "committed"}:
        return
    if said.state != saga.phase and not any(step.late for step in saga.steps):
        yield f"it ended as {saga.phase}, and was said to have ended otherwise: {said.told()}"
    keys = [(key, step) for key, step in case.keys(saga) if step.state is not StepState.EXEMPT]
    standing = [step.number for key, step in keys if then.stands(key)]
    summary = str(said.facts.get("summary", ""))
    count = (_UNDONE if said.state == "compensated" else _DONE).search(summary)
    if said.state == "compensated":
        if standing:
            yield f"said to be undone while {standing} stood: {said.told()}"
        undone = [key for key, _ in keys if any(line.undo_key != "by hand" for line in then.undos.get(key, []))]
        most = len(undone) + sum(step.tool == "shelf.put" for _, step in keys)
        if count is None or int(count[1]) > most:
            yield f"{len(undone)} steps were undone: {said.told()}"
    else:
        exempt = len(saga.steps) - len(keys)
        reads = sum(step.tool.endswith(".balance") for _, step in keys)
        if count is None or not len(standing) <= int(count[1]) <= len(standing) + exempt + reads:
            yield f"{len(standing)} steps stood: {said.told()}"


def _known_answers_are_recorded(case: Case) -> Iterator[str]:
    """What a server that was never killed knew of a call is in the log in the end."""
    for line in case.all.lines:
        if line.event != "did" or line.tool in UNDONE_BY or line.tool in READS or line.pid not in case.all.survivors:
            continue
        found = case.steps.get(base(line.key))
        if line.mode in {"ok", "0.2"} and found is not None and found[1].landed is False:
            yield f"{case.name(line.key)} was done by a server that lived, and is recorded as not done"


def _a_key_names_one_effect(case: Case) -> Iterator[str]:
    for saga in case.all.sagas.values():
        keyed = [(step.plan.step_key, key) for key, step in case.keys(saga) if step.plan.step_key]
        stands = Counter(step_key for step_key, key in keyed if case.world.stands(key))
        yield from (f"{saga.id}: {name} stands {times} times" for name, times in stands.items() if times > 1)


def _nobody_hears_of_others(case: Case) -> Iterator[str]:
    for said in case.all.said:
        may = case.all.callers[said.asked.caller]
        for saga_id in said.named - {said.asked.saga_id}:
            saga = case.all.sagas.get(saga_id)
            if saga is None and said.code == "still_running" and not said.step:
                # Its intent waits for the log. What is never stored is never sent, and the saga is never there.
                if any(_bears(line, said.asked.tag) for line in case.all.lines):
                    yield f"sent, and its saga is not there: {said.told()}"
            elif saga is None or saga.caller not in may:
                yield f"names {saga_id} of {saga and saga.caller!r}: {said.told()}"
        asked_for = case.all.sagas.get(said.asked.saga_id)
        reached = not said.trouble and said.code not in {"saga_not_found", "log_unavailable"}
        if asked_for is not None and asked_for.caller not in may and reached:
            yield f"reached what is not its own: {said.told()}"


_CHECKS = (
    _every_effect_has_a_record,
    _nothing_is_sent_again_on_a_guess,
    _what_sagas_say_is_so,
    _slots_hold_what_was_kept,
    _undone_in_order,
    _answers_are_true,
    _known_answers_are_recorded,
    _a_key_names_one_effect,
    _nobody_hears_of_others,
    *judge_people.CHECKS,
)
