"""A saga's history as an audit trail: one line an event, in words a person understands (SEMANTICS.md S14.1).

Pure: records in, lines out. Argument values, results and what a manual undo asks are left out unless they are asked for
(S11.4); what a tool gave as its error is not, because without it nobody understands the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from saga_mcp.domain import events as e
from saga_mcp.domain.values import WHOLE_SAGA, Effect, JsonObject, JsonValue, OnError, OnUndoFailure, PartAction
from saga_mcp.edge.clean import escape
from saga_mcp.edge.wording import waits_for
from saga_mcp.log.codec import encode
from saga_mcp.log.port import Record

_LONGEST = 300
_NAME_WIDTH = 22
_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def event_name(event: e.Event) -> str:
    """The event's name as people read it: `STEP_SUCCEEDED`."""
    return _HUMP.sub("_", type(event).__name__).upper()


def local_time(at: float) -> str:
    """A wall clock time with its offset, so that two logs can be laid side by side."""
    return datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="milliseconds")


def utc_time(at: float) -> str:
    """A wall clock time for programs."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timeline(records: Sequence[Record], *, values: bool = False) -> Iterator[str]:
    """One line for each event; with `values` the payload below it."""
    names = _Names()
    for record in records:
        names.learn(record.event)
        words = _words(record.event, names)
        where = names.of(record.event)
        line = "  ".join(part for part in (event_name(record.event).ljust(_NAME_WIDTH), where, words) if part)
        yield f"{local_time(record.at)}  {line.rstrip()}"
        if values and record.wiped:
            yield "      values were wiped"
        elif values:
            for name, value in _payload(record.event).items():
                yield f"      {name} = {escape(json.dumps(value, ensure_ascii=False))}"


def timeline_json(records: Sequence[Record], *, values: bool = False) -> list[JsonValue]:
    """The same for programs: the stored facts of each event, and with `values` its payload."""
    names = _Names()
    found: list[JsonValue] = []
    for record in records:
        names.learn(record.event)
        encoded = encode(record.event)
        row: JsonObject = {"seq": record.seq, "at": utc_time(record.at), "event": event_name(record.event)}
        step = _step_of(record.event)
        if step:
            row |= {"step": step, "tool": names.tools.get(step, "")}
        row["facts"] = json.loads(encoded.facts)
        note = getattr(record.event, "note", "")
        if note:
            row["note"] = note
        if values:
            row["values"] = None if record.wiped else _payload(record.event)
        if record.wiped:
            row["wiped"] = True
        found.append(row)
    return found


def _payload(event: e.Event) -> JsonObject:
    payload = encode(event).payload
    return {} if payload is None else cast("JsonObject", json.loads(payload))


def _step_of(event: e.Event) -> int:
    return cast("int", getattr(event, "step", 0))


@dataclass(slots=True)
class _Names:
    """What earlier events say about the numbers in later ones."""

    tools: dict[int, str] = field(default_factory=dict[int, str])
    undos: dict[tuple[int, str], e.PartSpec] = field(default_factory=dict[tuple[int, str], e.PartSpec])
    registered: dict[int, int] = field(default_factory=dict[int, int])
    marks: dict[int, str] = field(default_factory=dict[int, str])
    seq: int = 0

    def learn(self, event: e.Event) -> None:
        self.seq += 1
        match event:
            case e.StepIntended(step=step, plan=plan) | e.StepAwaitingApproval(step=step, plan=plan):
                self.tools[step] = plan.tool
            case e.StepAdopted(step=step, plan=plan, main=main, registered=parts):
                self.tools[step] = plan.tool
                self._bound(step, main)
                self.registered[step] = len(parts)
                self.undos |= {(step, f"r{number}"): part for number, part in enumerate(parts, 1)}
            case e.SavepointSet(name=name):
                self.marks[self.seq] = name
            case e.UndoRegistered(step=step, part=part):
                number = self.registered[step] = self.registered.get(step, 0) + 1
                self.undos[step, f"r{number}"] = part
            case (
                e.StepSucceeded(step=step, parts=parts)
                | e.StepObserved(step=step, parts=parts)
                | e.StepFellInDoubt(step=step, parts=parts)
            ):
                self._bound(step, parts)
            case e.StepSettled(step=step, parts=parts, landed=True):
                self._bound(step, parts)
            case _:
                pass

    def _bound(self, step: int, parts: tuple[e.PartSpec, ...] | None) -> None:
        for number, part in enumerate(parts or (), 1):
            self.undos[step, str(number)] = part

    def of(self, event: e.Event) -> str:
        """`step 2 travel.charge`, or nothing for an event of the saga."""
        step = _step_of(event)
        return self.step(step) if step else ""

    def step(self, number: int) -> str:
        return escape(f"step {number} {self.tools.get(number, '')}".rstrip())

    def undo(self, step: int, part: str) -> str:
        spec = self.undos.get((step, part))
        return f"part {part}" if spec is None else _undo_words(spec)

    def cause(self, cause: str) -> str:
        kind, _, detail = cause.partition(":")
        match kind:
            case "step_failed" if detail.isdecimal():
                return f"because of {self.step(int(detail))}"
            case "invariant":
                return f"because the rule {detail!r} does not hold"
            case "agent":
                return "asked for by the agent"
            case "operator":
                return "asked for by a person"
            case "revert":
                return f"to undo the committed saga {detail}"
            case "idle":
                return "because nothing happened for the idle limit"
            case _:
                return f"because of {cause}"


def _undo_words(spec: e.PartSpec) -> str:
    match spec.action:
        case PartAction.CALL:
            return spec.tool
        case PartAction.MANUAL:
            return "by a person"
        case PartAction.LEAVE:
            return "left as configured"
        case PartAction.NOTHING:
            return "nothing to undo"


def _words(event: e.Event, names: _Names) -> str:
    """What the event adds to its name, escaped and joined."""
    if isinstance(event, e.StepHostAwaited):
        return "the machine where it was done has not gone on with it for ten minutes"
    parts = (
        _saga_words(event, names)
        if isinstance(event, e.SagaEvent)
        else _step_words(event, names)
        if isinstance(event, e.StepEvent)
        else _undo_event_words(event, names)
    )
    return "; ".join(escape(part) for part in parts if part)


def _saga_words(event: e.SagaEvent, names: _Names) -> tuple[str, ...]:
    match event:
        case e.SagaOpened():
            return (
                f'for "{event.purpose}"' if event.purpose else "",
                f"undoes the committed saga {event.reverts}" if event.reverts else "",
                f"realm {event.realm}",
                "by a call without saga_id" if event.implicit else "",
                f"caller {event.caller}" if event.caller else "",
                f"opened by {event.opener}" if event.opener else "",
                "an error does not abort it" if event.on_error is OnError.HOLD else "",
                "a stuck undo does not halt older ones" if event.on_undo_failure is OnUndoFailure.CONTINUE else "",
            )
        case e.SagaClaimed(driver=driver):
            return (f"driven by process {driver} from here on" if driver else "left to a process that can go on",)
        case e.SavepointSet(name=name):
            return (f'"{name}"',)
        case e.SagaCommitted(by=by, accepted=accepted):
            kept = ", ".join(str(number) for number in accepted)
            return ("everything is kept", _by(by), f"failure of step {kept} accepted" if kept else "")
        case e.SagaReverted(revert=revert, steps=steps, by=by):
            return (f"step {', '.join(map(str, steps))}", f"by {revert}, which undoes them", _by(by))
        case e.AbortRequested() | e.AbortDeferred():
            scope = "the whole saga" if event.target == WHOLE_SAGA else f"back to {_mark(names, event.target)}"
            waits = "waits for the point of no return to be settled" if isinstance(event, e.AbortDeferred) else ""
            by = "" if event.by == "policy" else _by(event.by)
            return (scope, names.cause(event.cause), by, _quoted(event.reason), waits)
        case e.RollbackFinished():
            return ("nothing is left to undo",)
        case e.RollbackReopened():
            return ("its effect was found after its undo; it is to be undone again",)
        case e.InvariantViolated(name=name):
            return (f"the rule {name!r} does not hold",)
        case e.InvariantExempted(name=name, by=by, note=note):
            return (f"the rule {name!r}", _by(by), _quoted(note))
        case e.SagaIdled():
            return ("nothing happened for the idle limit",)
        case e.AlertsParked() | e.AlertsResumed() | e.SagaWiped():
            return _record_words(event)
        case e.ReadRecorded(tool=tool, is_error=is_error):
            return (tool, "answered with an error" if is_error else "")


def _record_words(event: e.AlertsParked | e.AlertsResumed | e.SagaWiped) -> tuple[str, ...]:
    match event:
        case e.AlertsParked(reason=reason):
            return ("its alerts are kept back until somebody says so", reason)
        case e.AlertsResumed(by=by, note=note):
            return ("its alerts are sent after all", _by(by), _quoted(note))
        case e.SagaWiped():
            return ("all values were removed",)


def _mark(names: _Names, target: int) -> str:
    name = names.marks.get(target)
    return f'save-point "{name}"' if name is not None else "a save-point"


def _step_words(event: e.StepEvent, names: _Names) -> tuple[str, ...]:
    match event:
        case e.StepAwaitingApproval():
            return ("a person is asked; nothing was sent",)
        case e.StepApproved(by=by, note=note):
            return (_by(by), _quoted(note))
        case e.StepCancelled(why=why, by=by, note=note):
            return (why, "" if by == "policy" else _by(by), _quoted(note))
        case e.StepIntended(plan=plan):
            key = f'step_key "{plan.step_key}"' if plan.step_key else ""
            return (plan.kind.value, key)
        case e.StepAdopted(undoes=undoes, main=main, build_error=build_error):
            return (f"step {undoes} of the reverted saga", _ready(main, names, event.step), _error(build_error))
        case e.StepAttempted():
            return ("sent again with the same key",)
        case e.StepAttemptEnded(effect=effect, error=error):
            return (_effect(effect), _error(error))
        case e.UndoRegistered(part=part):
            return (f"a part of its undo: {_undo_words(part)}",)
        case e.StepSucceeded(parts=parts, build_error=build_error):
            return (_ready(parts, names, event.step), _error(build_error))
        case e.StepObserved(image=image, after=after, build_error=build_error):
            seen = (
                "what it left behind" if image is not None or after is not None else "what it left behind is not known"
            )
            return (seen, _error(build_error))
        case e.StepFailed(error=error):
            return ("known to have had no effect", _error(error))
        case e.StepFellInDoubt():
            return (
                f"it may have happened ({event.reason.replace('_', ' ')})",
                "still running" if event.running else "",
                _error(event.error),
            )
        case e.StepRunEnded(end_known=end_known, error=error):
            return ("it ended" if end_known else "its end is assumed", "the outcome is still unknown", _error(error))
        case _:
            return _settling_words(event)


def _settling_words(event: e.StepEvent) -> tuple[str, ...]:
    match event:
        case e.StepOverdue():
            return ("past its hard deadline, and it cannot be stopped",)
        case e.StepProbesEnded():
            return ("probing gave no verdict",)
        case e.StepSettled():
            found = "it happened" if event.landed else "it did not happen"
            who = _by(event.person) if event.person else f"by {event.by.value.replace('_', ' ')}"
            return (found, who, _quoted(event.note), _error(event.build_error))
        case e.StepExhausted(error=error):
            return ("it used up its attempts", _error(error))
        case e.StepResumed(by=by, note=note):
            return ("may try again", _by(by), _quoted(note))
        case e.StepExempted(by=by, note=note):
            return ("its effect, if any, stays", _by(by), _quoted(note))
        case e.ReplyLost():
            return ("its answer did not reach the caller",)
        case _:  # pragma: no cover - `_step_words` has the others
            return ()


def _undo_event_words(event: e.UndoEvent, names: _Names) -> tuple[str, ...]:
    match event:
        case e.UndoIntended(step=step, part=part):
            return (f"undo {names.undo(step, part)}",)
        case e.UndoSucceeded(step=step, part=part, unneeded=unneeded):
            found = "nothing was sent: the guard found everything as it was before the step" if unneeded else ""
            return (f"undo {names.undo(step, part)}", found)
        case e.UndoFailed(step=step, part=part, effect=effect, error=error, counted=counted):
            reached = "" if counted else "it could not be reached"
            return (f"undo {names.undo(step, part)}", _effect(effect), reached, _error(error))
        case e.UndoFellInDoubt(step=step, part=part, reason=reason, running=running, error=error):
            doubt = f"it may have happened ({reason.replace('_', ' ')})"
            return (f"undo {names.undo(step, part)}", doubt, "still running" if running else "", _error(error))
        case e.UndoRunEnded(step=step, part=part, error=error):
            return (f"undo {names.undo(step, part)}", "the outcome is still unknown", _error(error))
        case e.UndoOverdue(step=step, part=part):
            return (f"undo {names.undo(step, part)}", "past its hard deadline, and it cannot be stopped")
        case e.UndoProbesEnded(step=step, part=part):
            return (f"undo {names.undo(step, part)}", "probing gave no verdict")
        case e.UndoSettled(step=step, part=part, done=done, by=by):
            found = "it happened" if done else "it did not happen"
            return (f"undo {names.undo(step, part)}", found, f"by {by.value.replace('_', ' ')}")
        case e.UndoParked(step=step, part=part, item=item, urgency=urgency):
            asked = waits_for(item)
            return (f"undo {names.undo(step, part)}", f"{item.value}: {asked}", f"urgency {urgency.value}")
        case e.UndoResumed(by=by, overwrite=overwrite, note=note):
            return ("may overwrite what changed since" if overwrite else "may try again", _by(by), _quoted(note))
        case e.UndoResolved(by=by, note=note):
            return ("undone by hand", _by(by), _quoted(note))


def _ready(parts: tuple[e.PartSpec, ...] | None, names: _Names, step: int) -> str:
    if parts is None:
        return "its undo cannot be built"
    registered = [names.undos[step, f"r{number}"] for number in range(1, names.registered.get(step, 0) + 1)]
    ready = ", then ".join(_undo_words(part) for part in (*parts, *reversed(registered)))
    return f"undo ready: {ready}" if ready else ""


def _by(name: str) -> str:
    return f"by {name}" if name else ""


def _quoted(text: str) -> str:
    return f'"{text}"' if text else ""


def _effect(effect: Effect) -> str:
    return "it had no effect" if effect is Effect.NONE else "it may have had an effect"


def _error(error: str) -> str:
    return error if len(error) <= _LONGEST else f"{error[:_LONGEST]}..."
