"""From a pair's undo entries and a step's frozen facts to the parts of its undo (SEMANTICS.md S6.1, S6.2).

Pure. Pairs from code and from the config take this one way. Anything that cannot be bound makes the whole undo one that
cannot be built: a part left out silently would be an effect left behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self, cast

from saga_mcp.domain.events import PartSpec
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.values import JsonObject, JsonValue, PartAction
from saga_mcp.tools.binding import CannotBind, Condition, Template, compile_condition, compile_template
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_mcp.tools.port import StepFacts, UndoContext

VARIABLES = frozenset({"args", "result", "known", "text", "capture", "saga", "step", "results"})
"""What is frozen with the outcome."""
MEMBERS = {"saga": ("id",), "step": ("key", "number")}
"""All that these two variables hold."""

_OF_RESULT = frozenset({"result", "text"})
_LATE = re.compile(r"\$\{\s*(cause|step\.undo_key)\s*\}")
_LATE_KEY = "saga__late"
"""Beside the bound arguments; no parameter may begin with `saga__`."""


@dataclass(frozen=True, slots=True)
class PlannedEntry:
    """One undo entry, compiled."""

    number: int
    entry: UndoEntry
    when: Condition
    each: Template | None
    args: Template
    message: Template
    late: Mapping[str, str]
    """Arguments that are known only when the undo is sent, by what they are."""

    @classmethod
    def compile(cls, number: int, entry: UndoEntry) -> Self:
        """Compile one entry.

        Raises:
            TemplateError: something in it does not compile.
        """
        late = late_args(entry.args)
        fixed = {name: value for name, value in entry.args.items() if name not in late}
        each = compile_template(entry.each, variables=VARIABLES) if entry.each else None
        inside = VARIABLES | {"item"} if each else VARIABLES
        return cls(
            number=number,
            entry=entry,
            when=compile_condition(entry.when, variables=VARIABLES),
            each=each,
            args=compile_template(cast("JsonValue", fixed), variables=inside),
            message=compile_template(entry.message, variables=inside),
            late=late,
        )

    @property
    def names_result(self) -> bool:
        """Whether it can only be built from a known result."""
        each = self.each.names if self.each else frozenset[str]()
        return self.entry.needs_result or bool((self.args.names | self.message.names | each) & _OF_RESULT)

    @property
    def names_results(self) -> bool:
        """Whether it looks at the results of other steps."""
        each = self.each.names if self.each else frozenset[str]()
        return "results" in self.when.names | self.args.names | self.message.names | each

    def parts(self, values: Mapping[str, JsonValue]) -> Iterator[PartSpec]:
        """The parts it comes to.

        Raises:
            CannotBind: an expression has no value.
        """
        if self.each is None:
            yield self._part(values)
            return
        items = self.each.bind(values)
        if not isinstance(items, list):
            raise CannotBind("each", self.entry.each, "it has to come to a list")
        if not items:
            yield PartSpec(action=PartAction.NOTHING, entry=self.number)
        for item in items:
            yield self._part({**values, "item": item})

    def _part(self, values: Mapping[str, JsonValue]) -> PartSpec:
        args = cast("JsonObject", self.args.bind(values))
        if self.late:
            args[_LATE_KEY] = dict(self.late)
        message = self.message.bind(values)
        return PartSpec(
            action=self.entry.action,
            tool=self.entry.tool,
            entry=self.number,
            idempotent=self.entry.idempotent,
            urgency=self.entry.urgency,
            args=args,
            message=message if isinstance(message, str) else json.dumps(message, ensure_ascii=False),
        )


class UndoPlan:
    """The compiled undo of one pair."""

    def __init__(self, entries: tuple[PlannedEntry, ...]) -> None:
        self.entries = entries

    @classmethod
    def of(cls, pair: Pair) -> Self:
        """Compile a pair's undo.

        Raises:
            TemplateError: something in it does not compile.
        """
        return cls(tuple(PlannedEntry.compile(number, entry) for number, entry in enumerate(pair.undo)))

    def bind(self, step: StepFacts) -> BoundUndo:
        """Build the undo of a step, or say why it cannot be built."""
        if not self.entries:
            return BoundUndo()
        values = _values(step, with_results=any(planned.names_results for planned in self.entries))
        parts: list[PartSpec] = []
        held = False
        for planned in self.entries:
            try:
                if not step.known and planned.when.names & _OF_RESULT:
                    return _unbuilt(f"undo[{planned.number}].when needs the result, which is not known")
                if not planned.when.holds(values):
                    continue
                held = True
                if not step.known and planned.names_result:
                    return _unbuilt(f"undo[{planned.number}] needs the result, which is not known")
                parts.extend(planned.parts(values))
            except CannotBind as unbound:
                return _unbuilt(f"undo[{planned.number}]: {unbound}")
        return BoundUndo(parts=tuple(parts)) if held else _unbuilt("no undo entry applies to this call")


def _unbuilt(reason: str) -> BoundUndo:
    return BoundUndo(parts=None, build_error=reason)


def late_args(args: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the arguments that are exactly `${cause}` or `${step.undo_key}`: only the moment of sending knows them."""
    found = {name: _LATE.fullmatch(value) for name, value in args.items() if isinstance(value, str)}
    return {name: match[1] for name, match in found.items() if match}


def fill_late(args: JsonObject, context: UndoContext) -> JsonObject:
    """Return a part's arguments with what only the moment of sending knows."""
    if _LATE_KEY not in args:
        return args
    late = cast("Mapping[str, str]", args[_LATE_KEY])
    known = {"cause": context.cause, "step.undo_key": context.undo_key}
    fixed = {name: value for name, value in args.items() if name != _LATE_KEY}
    return fixed | {name: known[what] for name, what in late.items()}


def _values(step: StepFacts, *, with_results: bool) -> dict[str, JsonValue]:
    return {
        "args": step.args,
        "result": step.result if step.known else {},
        "known": step.known,
        "text": step.text,
        "capture": step.capture,
        "saga": {"id": step.saga_id},
        "step": {"key": step.key, "number": step.number},
        # Collecting them takes time with the number of steps, so only where somebody looks.
        "results": dict(step.results) if with_results else {},
    }
