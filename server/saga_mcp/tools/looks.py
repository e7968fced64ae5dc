"""What a pair reads of the world, and what it makes of the answers: captures, guards, probes (SEMANTICS.md S6.6, S6.7).

Between the port and the engine: adapters only read, and the engine only acts on verdicts. What an answer means stands
in the frozen pair, so a changed config changes nothing about a step that has begun. Every condition fails closed
(S11.3): where it has no value, nothing is concluded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, cast

from saga_mcp.domain.errors import CaptureFailed
from saga_mcp.domain.events import StepPlan
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.binding import CannotBind, Condition, TemplateError, compile_condition, compile_template
from saga_mcp.tools.images import digested, image_of, same_image, size_of
from saga_mcp.tools.pair import Capture, Guard, Pair, Probe, ReadCall, UndoEntry
from saga_mcp.tools.port import (
    Absent,
    Landed,
    NoVerdict,
    ProbeVerdict,
    ReadAnswer,
    Reader,
    ReadFailed,
    StepFacts,
    ToolAnswer,
    UndoContext,
    UndoMissed,
)
from saga_mcp.tools.unsent import InvalidArguments
from saga_mcp.tools.variables import AFTER_OUTCOME, BEFORE_INTENT, NOW, values_of


@dataclass(frozen=True, slots=True)
class Seen:
    """What there was: `found`, `result` and `text`, as expressions see it."""

    image: JsonObject
    size: int = 0
    """Bytes that it takes."""


@dataclass(frozen=True, slots=True)
class NotSeen:
    """It could not be read, or not exactly: nothing may be concluded."""

    reason: str
    unreached: str = ""
    """As of `ReadFailed`."""


Sight: TypeAlias = Seen | NotSeen


class World(StrEnum):
    """What a guard found."""

    AS_BEFORE = "as_before"
    AS_LEFT = "as_left"
    CHANGED = "changed"


class Looks:
    """Reads for pairs.

    Args:
        reader: Finds what a read calls; `Catalogue.reader`.
    """

    def __init__(self, reader: Callable[[str], Reader | None]) -> None:
        self._reader = reader

    async def capture(self, pair: Pair, step: StepFacts) -> Sight:
        """Read what there is before the step; only for a pair with a capture."""
        assert pair.capture is not None  # noqa: S101 - see above
        return await self._look(pair.capture, step, BEFORE_INTENT)

    async def after(self, pair: Pair, step: StepFacts) -> Sight:
        """Read what the pair wants to know of the time after the step; only for a pair that wants it."""
        assert pair.after is not None  # noqa: S101 - see above
        return await self._look(pair.after, step, AFTER_OUTCOME)

    async def left(self, pair: Pair, step: StepFacts) -> Sight:
        """Read what a guard compares; only for a pair with one that makes the capture again.

        It is never put back. So it need not be exact, and what takes too much to be kept is known by a digest: the undo
        of a step is not lost for what the step wrote.
        """
        assert pair.capture is not None  # noqa: S101 - a pair guarded so has a capture
        assert pair.guard is not None  # noqa: S101 - see above
        sight = await self._look(pair.capture, step, BEFORE_INTENT, to_put_back=False)
        if isinstance(sight, Seen) and sight.size > pair.capture.max_bytes:
            return Seen(digested(sight.image, ignore_order=pair.guard.ignore_order))
        return sight

    async def guard(self, pair: Pair, step: StepFacts, later: Sequence[JsonValue] = ()) -> World | NotSeen:
        """Compare the world with how the step left it, and with how it was before; only for a pair with a guard.

        Args:
            pair: As frozen.
            step: The step.
            later: Images of what later steps of its saga made of that, and leave so.
        """
        guard = pair.guard
        assert guard is not None  # noqa: S101 - see above
        if guard.call is None:
            return await self._unchanged(pair, step, (step.image, *later), ignore_order=guard.ignore_order)
        return found_by(guard, await self.watched(guard.call, step), step)

    async def watched(self, call: ReadCall, step: StepFacts) -> ReadAnswer | ReadFailed:
        """Make a guard's own read."""
        return await self._read(call, step, AFTER_OUTCOME)

    async def _unchanged(
        self, pair: Pair, step: StepFacts, left: Sequence[JsonValue], *, ignore_order: bool
    ) -> World | NotSeen:
        now = await self.left(pair, step)
        if isinstance(now, NotSeen):
            return now
        if same_image(now.image, step.capture, ignore_order=ignore_order):
            return World.AS_BEFORE
        known = (image for image in left if image is not None)
        as_left = any(same_image(now.image, image, ignore_order=ignore_order) for image in known)
        return World.AS_LEFT if as_left else World.CHANGED

    async def probe(self, probe: Probe, step: StepFacts) -> ProbeVerdict:
        """Ask whether a forward action landed."""
        answer = await self._read(probe.call, step, AFTER_OUTCOME)
        values = values_of(step)
        landed, error = _landed(probe, answer, values)
        if landed is None:
            return NoVerdict(error=error)
        if not landed:
            return Absent()
        assert isinstance(answer, ReadAnswer)  # noqa: S101 - without an answer there is no verdict
        shown = ToolAnswer(content=({"type": "text", "text": answer.text},))
        if probe.result is None:
            return Landed(answer=shown, result=None, known=False)
        try:
            result = compile_template(probe.result, variables=AFTER_OUTCOME | NOW)
            return Landed(answer=shown, result=result.bind(values | {"now": now_of(answer)}))
        except _NOT_DECIDED:  # what it did is not known exactly, only that it did something
            return Landed(answer=shown, result=None, known=False)

    async def probe_undo(self, probe: Probe, context: UndoContext) -> bool | None:
        """Ask whether an undo attempt took effect; None: no verdict."""
        values = late_values(context)
        answer = await self._read(probe.call, context.step, AFTER_OUTCOME, values)
        return _landed(probe, answer, values)[0]

    async def read(self, call: ReadCall, context: UndoContext, item: JsonValue) -> ReadAnswer | ReadFailed:
        """Read what an undo part needs to know right before it is sent."""
        return await self._read(call, context.step, AFTER_OUTCOME | {"item"}, late_values(context) | {"item": item})

    async def _look(
        self, capture: Capture, step: StepFacts, variables: frozenset[str], *, to_put_back: bool = True
    ) -> Sight:
        answer = await self._read(capture.call, step, variables)
        if isinstance(answer, ReadFailed):
            return NotSeen(answer.reason, answer.unreached)
        values = values_of(step) | {"now": now_of(answer)}
        known = variables | NOW
        size = size_of(answer)
        try:
            absent = _says_absent(capture.absent_when, answer, known, values)
            if absent or (capture.null_is_absent and not answer.is_error and answer.result is None):
                return Seen(image_of(found=False))
            if answer.is_error:
                return NotSeen(answer.error or answer.text)
            if to_put_back and size > capture.max_bytes:
                return NotSeen(f"what is there takes {size} bytes, more than {capture.max_bytes}")
            if to_put_back and not _holds(capture.exact_when, known, values):
                return NotSeen("what is there cannot be read exactly")
        except _NOT_DECIDED as undecided:
            return NotSeen(str(undecided))
        return Seen(image_of(found=True, result=answer.result, text=answer.text), size)

    async def _read(
        self,
        call: ReadCall,
        step: StepFacts,
        variables: frozenset[str],
        values: Mapping[str, JsonValue] | None = None,
    ) -> ReadAnswer | ReadFailed:
        reader = self._reader(call.tool)
        if reader is None:
            return ReadFailed(reason=f"{call.tool} is not available in this config")
        if reader.target_id != call.target_id:
            return ReadFailed(reason=f"{call.tool} now points to another place than when the step was done")
        try:
            template = compile_template(cast("JsonValue", call.args), variables=variables)
            args = template.bind(values_of(step) if values is None else values)
        except _NOT_DECIDED as unbound:
            return ReadFailed(reason=f"{call.tool}: {unbound}")
        return await reader.read(cast("JsonObject", args), step, call.rules)


def found_by(guard: Guard, answer: ReadAnswer | ReadFailed, step: StepFacts) -> World | NotSeen:
    """Return what a guard makes of what its own read brought."""
    if isinstance(answer, ReadFailed):
        return NotSeen(answer.reason, answer.unreached)
    values = values_of(step) | {"now": now_of(answer)}
    undecided = NotSeen(answer.error or answer.text) if answer.is_error else World.CHANGED
    try:
        if _says(guard.as_before, answer, values):
            return World.AS_BEFORE
        if _says(guard.as_left, answer, values):
            return World.AS_LEFT
    except _NOT_DECIDED:
        pass
    return undecided


def resource_of(pair: Pair, args: JsonObject, saga_id: str) -> str:
    """Return what a call works on by its pair's own word, which its saga holds to its end (S9.2); empty: nothing.

    Raises:
        InvalidArguments: it cannot be told.
    """
    if not pair.resource:
        return ""
    try:
        bound = _early(pair.resource, args, saga_id)
    except _NOT_DECIDED as unbound:
        raise InvalidArguments((f"what {pair.tool} works on cannot be told: {unbound}",)) from unbound
    return bound if isinstance(bound, str) else json.dumps(bound, sort_keys=True)


def lock_name(pair: Pair, plan: StepPlan, saga_id: str) -> str:
    """Return what stands for the thing that a call works on, so that no other one does (S5.3); empty: nothing does.

    Raises:
        CaptureFailed: it cannot be told.
    """
    what: JsonValue = plan.resource
    try:
        if not what and pair.capture is not None:
            what = _early(_called(pair.capture.call), plan.args, saga_id)
        elif not what and pair.guard is not None and pair.guard.call is not None:
            what = _foreseen(pair.guard.call, plan.args, saga_id)
    except _NOT_DECIDED as unbound:
        raise CaptureFailed(pair.tool, str(unbound)) from unbound
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest() if what else ""


def _called(call: ReadCall) -> JsonValue:
    return [call.tool, call.target_id, cast("JsonValue", call.args)]


def _early(what: JsonValue, args: JsonObject, saga_id: str) -> JsonValue:
    return compile_template(what, variables=BEFORE_INTENT).bind({"args": args, "saga": {"id": saga_id}})


def _foreseen(call: ReadCall, args: JsonObject, saga_id: str) -> JsonValue:
    """What a guard will look at; None where only the call's outcome tells, for then nobody else knows it yet."""
    try:
        template = compile_template(_called(call), variables=BEFORE_INTENT)
    except TemplateError:
        return None
    return template.bind({"args": args, "saga": {"id": saga_id}})


_NOT_DECIDED = (CannotBind, TemplateError)
_TEXT_OF_NOW = frozenset({("now",), ("now", "text")})
_ERROR_OF_NOW = ("now", "error")


def done_already(entry: UndoEntry, missed: UndoMissed, context: UndoContext) -> bool:
    """Whether an undo's error says that there is nothing left to undo (S6.5); in doubt: no.

    Only its own words can: why nothing was sent, or nothing came back, holds any words, those of `done_when` too.
    """
    if not missed.answered:
        return False
    now: JsonObject = {"text": missed.text or missed.error, "result": missed.result, "error": missed.error}
    try:
        return _holds(entry.done_when, AFTER_OUTCOME | NOW, late_values(context) | {"now": now})
    except _NOT_DECIDED:
        return False


def now_of(answer: ReadAnswer) -> JsonObject:
    """What expressions see as `now` or `read`."""
    return {"text": answer.text, "result": answer.result, "error": answer.error}


def late_values(context: UndoContext) -> dict[str, JsonValue]:
    """What is known when an undo is sent."""
    step = context.step
    known: dict[str, JsonValue] = {
        "cause": context.cause,
        "step": {"key": step.key, "number": step.number, "undo_key": context.undo_key},
    }
    return values_of(step) | known


def _landed(probe: Probe, answer: ReadAnswer | ReadFailed, values: Mapping[str, JsonValue]) -> tuple[bool | None, str]:
    if isinstance(answer, ReadFailed):
        return None, answer.reason
    condition = compile_condition(probe.landed, variables=AFTER_OUTCOME | NOW)
    if answer.is_error and not _asks_for_errors(condition):
        return None, answer.error
    try:
        return condition.verdict({**values, "now": now_of(answer)}), ""
    except CannotBind as unbound:
        return None, str(unbound)


def _says_absent(
    condition: str | bool,  # noqa: FBT001 - as a pair has it
    answer: ReadAnswer,
    variables: frozenset[str],
    values: Mapping[str, JsonValue],
) -> bool:
    """Whether an answer says that nothing is there.

    What is there may hold any words, those of an error too: of an answer that is no error its text is not searched.
    An error, in turn, says so only to who looks at its words.
    """
    compiled = compile_condition(condition, variables=variables)
    if answer.is_error:
        looks = _asks_for_errors(compiled) or any(path[:2] in _TEXT_OF_NOW for path in compiled.paths)
        return looks and compiled.holds(values)
    return not any(path[:2] in _TEXT_OF_NOW for path in compiled.searched) and compiled.holds(values)


def _says(condition: str | bool, answer: ReadAnswer, values: Mapping[str, JsonValue]) -> bool:  # noqa: FBT001 - as a pair has it
    """Whether an answer says what a guard asks for."""
    compiled = compile_condition(condition, variables=AFTER_OUTCOME | NOW)
    return (not answer.is_error or _asks_for_errors(compiled)) and compiled.holds(values)


def _asks_for_errors(condition: Condition) -> bool:
    """Whether an error may decide: any other one than those that it asks for may have any reason (S4.2)."""
    return _ERROR_OF_NOW in condition.paths


def _holds(condition: str | bool, variables: frozenset[str], values: Mapping[str, JsonValue]) -> bool:  # noqa: FBT001 - as a pair has it
    return compile_condition(condition, variables=variables).holds(values)
