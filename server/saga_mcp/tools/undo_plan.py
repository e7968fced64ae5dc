"""From a pair's undo entries and a step's frozen facts to the parts of its undo (SEMANTICS.md S6.1, S6.2).

Pure. Pairs from code and from the config take this one way. Anything that cannot be bound makes the whole undo one that
cannot be built: a part left out silently would be an effect left behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Self, cast

from saga_mcp.domain.events import PartSpec
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.values import JsonObject, JsonValue, PartAction
from saga_mcp.tools.binding import CannotBind, Condition, Template, compile_condition, compile_template
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_mcp.tools.port import StepFacts, UndoContext
from saga_mcp.tools.variables import AFTER_OUTCOME, values_of

_UNKNOWN = "which is not known"
_ALTERED = "which JSON cannot hold exactly (NaN, deep nesting, objects that are no JSON)"
_OF_RESULT = frozenset({"result", "text"})
_AFTERWARDS = frozenset({"result", "known", "text", "after", "step", "results", "read"})
"""What is not known before a call."""
_LATE = re.compile(r"\$\{\s*(cause|step\.undo_key)\s*\}")
_LATE_KEY = "saga__late"
"""Beside the bound arguments; no parameter may begin with `saga__`."""
_ITEM_KEY = "saga__item"
AT_SENDING = AFTER_OUTCOME | {"item", "read"}
"""What an argument may name that is filled in when its undo is sent, because it names `read`."""


@dataclass(frozen=True, slots=True)
class PlannedEntry:
    """One undo entry, compiled."""

    number: int
    entry: UndoEntry
    when: Condition
    each: Template | None
    args: Template
    message: Template
    probed: bool
    """Whether an attempt of unknown outcome can be asked about: a guard tells too."""
    late: Mapping[str, JsonValue]
    """Arguments that are known only when the undo is sent, by what they are: two words, or a list of one template."""

    @classmethod
    def compile(cls, number: int, entry: UndoEntry, *, guarded: bool = False) -> Self:
        """Compile one entry.

        Raises:
            TemplateError: something in it does not compile.
        """
        late = late_args(entry.args, reads=entry.read is not None)
        fixed = {name: value for name, value in entry.args.items() if name not in late}
        each = compile_template(entry.each, variables=AFTER_OUTCOME) if entry.each else None
        inside = AFTER_OUTCOME | {"item"} if each else AFTER_OUTCOME
        return cls(
            number=number,
            entry=entry,
            when=compile_condition(entry.when, variables=AFTER_OUTCOME),
            each=each,
            args=compile_template(cast("JsonValue", fixed), variables=inside),
            message=compile_template(entry.message, variables=inside),
            probed=entry.action is PartAction.CALL and (entry.probe is not None or guarded),
            late=late,
        )

    @property
    def names_result(self) -> bool:
        """Whether it can only be built from a known result."""
        return self.entry.needs_result or bool((self.names - self.when.names) & _OF_RESULT)

    @property
    def names(self) -> frozenset[str]:
        """All variables that it looks at."""
        each = self.each.names if self.each else frozenset[str]()
        return self.when.names | self.args.names | self.message.names | each | self.late_names

    @property
    def late_names(self) -> frozenset[str]:
        """Variables of what is filled in when it is sent."""
        templates = [compile_template(late, variables=AT_SENDING) for late in self.late.values()]
        return frozenset[str]().union(*(template.names for template in templates))

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
            if "item" in values:
                args[_ITEM_KEY] = values["item"]
        message = self.message.bind(values)
        return PartSpec(
            action=self.entry.action,
            tool=self.entry.tool,
            entry=self.number,
            idempotent=self.entry.idempotent,
            has_probe=self.probed,
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
        return cls(
            tuple(
                PlannedEntry.compile(number, entry, guarded=pair.guard is not None)
                for number, entry in enumerate(pair.undo)
            )
        )

    def unbuildable(self, step: StepFacts) -> str:
        """Why the undo of a call could never be built, as far as that is known before the call; empty: it could.

        What names the result, or what will be read, is not known yet.
        """
        values = values_of(step, with_results=False)
        for planned in self.entries:
            if planned.when.names & _AFTERWARDS:
                continue
            try:
                if planned.when.holds(values) and not planned.names & _AFTERWARDS:
                    list(planned.parts(values))
            except CannotBind as unbound:
                return f"undo[{planned.number}]: {unbound}"
        return ""

    def bind(self, step: StepFacts, readers: Container[str] = frozenset()) -> BoundUndo:
        """Build the undo of a step, or say why it cannot be built.

        Args:
            step: The step.
            readers: Undo tools that may look at the result whatever their arguments name.
        """
        if not self.entries:
            return BoundUndo()
        usable, lacks = step.known and step.exact, _UNKNOWN if step.exact else _ALTERED
        values = values_of(step, with_results=any("results" in planned.names for planned in self.entries))
        parts: list[PartSpec] = []
        held = False
        for planned in self.entries:
            try:
                if not usable and planned.when.names & _OF_RESULT:
                    return _unbuilt(f"undo[{planned.number}].when needs the result, {lacks}")
                if step.after is None and "after" in planned.names:
                    return _unbuilt(f"undo[{planned.number}] needs what was read after the step, which is not known")
                if not planned.when.holds(values):
                    continue
                held = True
                if not usable and planned.names_result:
                    return _unbuilt(f"undo[{planned.number}] needs the result, {lacks}")
                if not step.exact and planned.entry.tool in readers:
                    return _unbuilt(f"undo[{planned.number}] may read the result, {lacks}")
                parts.extend(planned.parts(values))
            except CannotBind as unbound:
                return _unbuilt(f"undo[{planned.number}]: {unbound}")
        return BoundUndo(parts=tuple(parts)) if held else _unbuilt("no undo entry applies to this call")


def _unbuilt(reason: str) -> BoundUndo:
    return BoundUndo(parts=None, build_error=reason)


def late_args(args: Mapping[str, JsonValue], *, reads: bool = False) -> dict[str, JsonValue]:
    """Return the arguments that only the moment of sending knows.

    Those that are exactly `${cause}` or `${step.undo_key}`, by their word; where the entry reads, also those that name
    `read`, as a list of their template.

    Raises:
        TemplateError: an argument does not compile.
    """
    found: dict[str, JsonValue] = {}
    for name, value in args.items():
        match = _LATE.fullmatch(value) if isinstance(value, str) else None
        if match:
            found[name] = match[1]
        elif reads and "read" in compile_template(value, variables=AT_SENDING).names:
            found[name] = [value]
    return found


def fill_late(args: JsonObject, context: UndoContext, read: JsonValue = None) -> JsonObject:
    """Return a part's arguments with what only the moment of sending knows.

    Raises:
        CannotBind: what was read does not have what an argument needs.
    """
    if _LATE_KEY not in args:
        return args
    late = cast("Mapping[str, JsonValue]", args[_LATE_KEY])
    known = {"cause": context.cause, "step.undo_key": context.undo_key}
    values: dict[str, JsonValue] = {}
    filled = {name: value for name, value in args.items() if name not in {_LATE_KEY, _ITEM_KEY}}
    for name, what in late.items():
        if isinstance(what, str):
            filled[name] = known[what]
            continue
        values = values or values_of(context.step) | {"read": read, "item": item_of(args)}
        (template,) = cast("list[JsonValue]", what)
        filled[name] = compile_template(template, variables=AT_SENDING).bind(values)
    return filled


def shown_args(args: JsonObject) -> JsonObject:
    """Return a part's arguments for people: what only the moment of sending knows stands there as the config has it."""
    late = cast("Mapping[str, JsonValue]", args.get(_LATE_KEY, {}))
    fixed = {name: value for name, value in args.items() if name not in {_LATE_KEY, _ITEM_KEY}}
    return fixed | {name: f"${{{what}}}" if isinstance(what, str) else _only(what) for name, what in late.items()}


def _only(what: JsonValue) -> JsonValue:
    (template,) = cast("list[JsonValue]", what)
    return template


def item_of(args: JsonObject) -> JsonValue:
    """Return the item of `each` that a part was made for."""
    return args.get(_ITEM_KEY)
