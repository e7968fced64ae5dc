"""What a call would come to: its case, its capture, and the undo that would be frozen with its outcome.

Nothing is called but what the pair reads before a step, which only reads; what comes after a step is worked out from a
result that somebody gives, or from a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from saga_mcp.cli.checking.samples import samples_of
from saga_mcp.cli.checking.schemas import plain, required
from saga_mcp.domain.frozen import PartSpec
from saga_mcp.domain.values import JsonObject, JsonValue, Kind
from saga_mcp.tools.binding import CannotBind
from saga_mcp.tools.hidden import pair_for
from saga_mcp.tools.looks import Looks, NotSeen, Seen
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Catalogue, StepFacts, Tool
from saga_mcp.tools.undo_plan import UndoPlan
from saga_mcp.tools.upstream.adapter import UpstreamTool, UpstreamUndo
from saga_mcp.tools.upstream.schema import InputSchema
from saga_mcp.tools.variables import values_of

_KEY = "0" * 26
"""Stands for the key that a real step would have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A result to work with."""

    result: JsonValue
    text: str | None = None
    """What the answer says besides; None: nobody has said."""
    is_sample: bool
    """It was made from the schema, and is not what anybody said."""


class NoAnswer(Exception):
    """A text that somebody gives is no success of the tool."""


@dataclass(frozen=True, slots=True)
class Part:
    """One call of the undo, or what a person has to do."""

    args: JsonObject
    """What is only known when it is sent stands as the config has it."""
    message: str
    problems: tuple[str, ...]
    """Why its tool would not take it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the undo."""

    number: int
    tool: str
    """What is called; else what is done instead."""
    chosen: bool
    why: str
    """Why it would not run, or cannot be built; empty where it would."""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One call, tried."""

    pair: Pair
    """Of the case that holds."""
    case: int | None
    """Which, from 0; None: the tool has no cases."""
    args: JsonObject
    """As they would be sent, but for the key."""
    seen: Seen | NotSeen | None
    """What the capture found; None: the pair has none."""
    given: Given | None
    """None: nothing is known of what it gives."""
    entries: tuple[Entry, ...] = ()
    unbuilt: str = ""
    """Why there would be no undo; empty where there would be one, or none is needed."""
    lost: str
    """What would become of the step if its reply were lost."""
    lost_is_undone: bool

    @property
    def called(self) -> tuple[str, ...]:
        """The tools that were called for this."""
        return (self.pair.capture.call.tool,) if self.pair.capture else ()


async def try_call(
    catalogue: Catalogue, tool: Tool, arguments: JsonObject, given: Given | None, text: str = ""
) -> Trial:
    """Try one call.

    Args:
        catalogue: Everything that can be called.
        tool: Of it.
        arguments: As an agent would give them.
        given: A result; None: what `text` comes to, or a sample, where the tool's schema tells what it gives.
        text: All that a server answers.

    Raises:
        NoAnswer: the text is no success of the tool.
        InvalidArguments: the call would be refused.
        UpstreamDown: its server is not up.
    """
    args = tool.decode(arguments).json
    pair = pair_for(tool.pair, args)
    case = next((number for number, case in enumerate(tool.pair.cases) if case.pair is pair), None)
    facts = StepFacts(saga_id="sg-0", tool=pair.tool, number=1, key=_KEY, args=args)
    seen = await Looks(catalogue.reader).capture(pair, facts) if pair.capture else None
    given = given or (_answered(tool, args, text) if text else _sample(tool))
    if isinstance(seen, NotSeen):
        return Trial(
            pair=pair, case=case, args=args, seen=seen, given=given, lost="nothing is sent", lost_is_undone=True
        )
    lost_facts = _after(facts, seen, None)
    known_facts = _after(facts, seen, given)
    entries = tuple(_entries(catalogue, pair, known_facts))
    bound = catalogue.bind(pair, known_facts)
    lost, lost_is_undone = _lost(catalogue, pair, lost_facts)
    return Trial(
        pair=pair,
        case=case,
        args=args,
        seen=seen,
        given=given,
        entries=entries,
        unbuilt=bound.build_error if bound.parts is None else "",
        lost=lost,
        lost_is_undone=lost_is_undone,
    )


def _answered(tool: Tool, args: JsonObject, text: str) -> Given:
    """What a text comes to, read as the upstream's answers are."""
    if not isinstance(tool, UpstreamTool):
        raise NoAnswer("a Python tool answers with its result: give --result")
    read = tool.answers.read({"content": [{"type": "text", "text": text}]}, args)
    if read.effect is not None:
        raise NoAnswer(f"this answer counts as a failure: {read.error}")
    return Given(result=read.result, text=text, is_sample=False)


def _sample(tool: Tool) -> Given | None:
    schema = tool.listing.output_schema
    samples = samples_of(plain(schema)) if schema is not None else ()
    return Given(result=samples[0].value, is_sample=True) if samples else None


def _after(facts: StepFacts, seen: Seen | NotSeen | None, given: Given | None) -> StepFacts:
    return StepFacts(
        saga_id=facts.saga_id,
        tool=facts.tool,
        number=facts.number,
        key=facts.key,
        args=facts.args,
        result=given.result if given else None,
        known=given is not None,
        text=given.text if given else None,
        capture=cast("JsonValue", seen.image) if isinstance(seen, Seen) else None,
    )


def _entries(catalogue: Catalogue, pair: Pair, facts: StepFacts) -> Iterator[Entry]:
    values = values_of(facts)
    for planned in UndoPlan.of(pair).entries:
        tool = planned.entry.tool or planned.entry.action.value
        try:
            chosen = planned.when.holds(values)
            if chosen and not facts.known and planned.names_result:
                yield Entry(
                    planned.number, tool, chosen, "needs the result, which is not known: give one with --result"
                )
                continue
            parts = tuple(_part(catalogue, part) for part in planned.parts(values)) if chosen else ()
            yield Entry(planned.number, tool, chosen, "" if chosen else f"{planned.entry.when} is false", parts)
        except CannotBind as unbound:
            yield Entry(planned.number, tool, chosen=False, why=str(unbound))


def _part(catalogue: Catalogue, part: PartSpec) -> Part:
    return Part(part.args | part.late, part.message, tuple(_problems(catalogue, part)))


def _problems(catalogue: Catalogue, part: PartSpec) -> Iterator[str]:
    """Why the tool would not take its arguments, as far as they are known."""
    undoer = catalogue.undoer(part.tool)
    if not isinstance(undoer, UpstreamUndo) or not undoer.upstream.tools:
        return
    known = undoer.upstream.tools.get(undoer.tool)
    if known is None:
        yield f"there is no tool {part.tool}"
        return
    needed: list[JsonValue] = [name for name in required(known.input_schema) if name not in part.late]
    schema = InputSchema({**known.input_schema, "required": needed})
    yield from schema.problems(schema.decoded(part.args))


def _lost_retriable(pair: Pair) -> tuple[str, bool]:
    asked = f"{pair.probe.call.tool if pair.probe else 'its probe'} would be asked whether it happened; if not, "
    asked = asked if pair.has_probe else ""
    if pair.retry.attempts == 1:
        return f"{asked}a person would be asked: it is sent once (retry)", False
    most = f"until it succeeds, {pair.retry.attempts} times at the most"
    return f"{asked}it would be sent again with the same key {most}; then a person would be asked", True


def _lost(catalogue: Catalogue, pair: Pair, facts: StepFacts) -> tuple[str, bool]:
    """What becomes of a step whose reply is lost (S3.2, S6.8), and whether the server undoes it by itself."""
    if pair.kind is Kind.READ_ONLY:
        return "nothing to undo", True
    if pair.kind is Kind.RETRIABLE:
        return _lost_retriable(pair)
    # Of a call elsewhere nobody knows that it has ended: it is waited for.
    resent = pair.idempotent and pair.retry.attempts > 1 and not pair.outlives_us
    again = "it would be sent again with the same key; then " if resent else ""
    unbuilt = catalogue.bind(pair, facts).build_error
    plan = UndoPlan.of(pair)
    by_result = any(planned.names_result for planned in plan.entries)
    by_text = any(planned.names_text for planned in plan.entries)
    if pair.has_probe:
        asked = f"{again}{pair.probe.call.tool if pair.probe else 'its probe'} would be asked whether it happened"
        if by_text:
            return f"{asked}, but not what it answered, which its undo needs: a person is asked", False
        if by_result and pair.probe is not None and pair.probe.result is None:
            return f"{asked}, but not with which result, which its undo needs: a person is asked", False
        return asked, True
    if pair.kind is Kind.PIVOT:
        return f"{again}a person would be asked whether it happened: it has no probe", False
    if unbuilt:
        return f"{again}a person would be asked: {unbuilt}", False
    if pair.guard is not None and pair.guard.call is None:  # how the step left the world was never seen (S6.7)
        said = "where the world is as it was before, there is nothing to undo; else a person would be asked"
        return f"{again}{said}", False
    if pair.guard is not None:
        return f"{again}its guard would be asked, and it would be undone where the world is as the step leaves it", True
    if pair.safe_if_absent:
        return f"{again}it would be undone once the call is known to have ended", True
    return f"{again}a person would be asked: nothing says that its undo is safe_if_absent, and it has no probe", False
