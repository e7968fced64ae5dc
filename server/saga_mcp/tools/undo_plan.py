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
from saga_mcp.domain.hiding import NOT_STORED
from saga_mcp.domain.values import JsonObject, JsonValue, PartAction
from saga_mcp.tools.binding import CannotBind, Condition, Template, compile_condition, compile_template
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_mcp.tools.port import StepFacts, UndoContext
from saga_mcp.tools.variables import AFTER_OUTCOME, values_of

_UNKNOWN = "which is not known"
_ALTERED = "which JSON cannot hold exactly (NaN, deep nesting, objects that are no JSON)"
_NONE_APPLIES = "no undo entry applies to this call"
_OF_RESULT = frozenset({"result", "text"})
_AFTERWARDS = frozenset({"result", "known", "text", "after", "step", "results", "read"})
"""What is not known before a call."""
_LATE = re.compile(r"\$\{\s*(cause|step\.undo_key)\s*\}")
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
    sealed: bool
    """Whether what its call said may have lost something that is not stored."""
    late: Mapping[str, JsonValue]
    """Arguments that are known only when the undo is sent, as the entry has them."""

    @classmethod
    def compile(cls, number: int, entry: UndoEntry, *, guarded: bool = False, sealed: bool = False) -> Self:
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
            sealed=sealed,
            late=late,
        )

    @property
    def names_result(self) -> bool:
        """Whether it can only be built from a known result."""
        return self.entry.needs_result or bool((self.names - self.when.names) & _OF_RESULT)

    @property
    def names_text(self) -> bool:
        """Whether it can only be built from what the call itself answered, which no probe and no person tells."""
        return "text" in self.names

    @property
    def needed(self) -> frozenset[str]:
        """Variables without which it cannot be built, where it is chosen."""
        return self.names | {"result"} if self.entry.needs_result else self.names

    @property
    def names(self) -> frozenset[str]:
        """All variables that it looks at."""
        each = self.each.names if self.each else frozenset[str]()
        return self.when.names | self.args.names | self.message.names | each | self.late_names

    @property
    def late_names(self) -> frozenset[str]:
        """Variables of what is filled in when it is sent."""
        templates = [compile_template(late, variables=AT_SENDING) for late in self.late.values() if not _word(late)]
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
        message = self.message.bind(values)
        args = cast("JsonObject", self.args.bind(values))
        if self.sealed and NOT_STORED in json.dumps(args):
            raise CannotBind("args", "result", "it holds a secret that was not stored")
        return PartSpec(
            action=self.entry.action,
            tool=self.entry.tool,
            entry=self.number,
            idempotent=self.entry.idempotent,
            has_probe=self.probed,
            outlives_us=self.entry.outlives_us,
            urgency=self.entry.urgency,
            args=args,
            late=dict(self.late),
            item=values.get("item") if self.late or self.entry.read else None,
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
                PlannedEntry.compile(number, entry, guarded=pair.guard is not None, sealed=bool(pair.sealed))
                for number, entry in enumerate(pair.undo)
            )
        )

    def unbuildable(self, step: StepFacts) -> str:
        """Why the undo of a call could never be built, as far as that is known before the call; empty: it could.

        What names the result, or what will be read, is not known yet.
        """
        values = values_of(step, with_results=False)
        may_apply = not self.entries
        for planned in self.entries:
            if planned.when.names & _AFTERWARDS:
                may_apply = True
                continue
            try:
                if not planned.when.holds(values):
                    continue
                may_apply = True
                if not planned.names & _AFTERWARDS:
                    list(planned.parts(values))
            except CannotBind as unbound:
                return f"undo[{planned.number}]: {unbound}"
        return "" if may_apply else _NONE_APPLIES

    def bind(self, step: StepFacts, readers: Container[str] = frozenset()) -> BoundUndo:
        """Build the undo of a step, or say why it cannot be built.

        Args:
            step: The step.
            readers: Undo tools that may look at the result whatever their arguments name.
        """
        if not self.entries:
            return BoundUndo()
        values = values_of(step, with_results=any("results" in planned.names for planned in self.entries))
        parts: list[PartSpec] = []
        held = False
        for planned in self.entries:
            try:
                if lacks := _lacking(step, planned.when.names):
                    return _unbuilt(f"undo[{planned.number}].when needs {lacks}")
                if not planned.when.holds(values):
                    continue
                held = True
                if lacks := _lacking(step, planned.needed):
                    return _unbuilt(f"undo[{planned.number}] needs {lacks}")
                if not step.exact and planned.entry.tool in readers:
                    return _unbuilt(f"undo[{planned.number}] may read the result, {_ALTERED}")
                parts.extend(planned.parts(values))
            except CannotBind as unbound:
                return _unbuilt(f"undo[{planned.number}]: {unbound}")
        return BoundUndo(parts=tuple(parts)) if held else _unbuilt(_NONE_APPLIES)


def _lacking(step: StepFacts, names: frozenset[str]) -> str:
    """Which of these variables is not to be had of a step; empty: none."""
    if names & _OF_RESULT and not (step.known and step.exact):
        return f"the result, {_UNKNOWN if step.exact else _ALTERED}"
    if "text" in names and step.text is None:
        return f"what the call answered, {_UNKNOWN}"
    if "after" in names and step.after is None:
        return f"what was read after the step, {_UNKNOWN}"
    return ""


def _unbuilt(reason: str) -> BoundUndo:
    return BoundUndo(parts=None, build_error=reason)


def late_args(args: Mapping[str, JsonValue], *, reads: bool = False) -> dict[str, JsonValue]:
    """Return the arguments that only the moment of sending knows.

    Those that are exactly `${cause}` or `${step.undo_key}`; where the entry reads, also those that name `read`.

    Raises:
        TemplateError: an argument does not compile.
    """
    return {
        name: value
        for name, value in args.items()
        if _word(value) or (reads and "read" in compile_template(value, variables=AT_SENDING).names)
    }


def fill_late(part: PartSpec, context: UndoContext, read: JsonValue = None) -> JsonObject:
    """Return a part's arguments with what only the moment of sending knows.

    Raises:
        CannotBind: what was read does not have what an argument needs.
    """
    known = {"cause": context.cause, "step.undo_key": context.undo_key}
    filled = dict(part.args)
    values: dict[str, JsonValue] = {}
    for name, late in part.late.items():
        if word := _word(late):
            filled[name] = known[word]
            continue
        values = values or values_of(context.step) | {"read": read, "item": part.item}
        filled[name] = compile_template(late, variables=AT_SENDING).bind(values)
    return filled


def _word(argument: JsonValue) -> str:
    """Return what an argument is that stands for one of the two words; empty: none of them."""
    match = _LATE.fullmatch(argument) if isinstance(argument, str) else None
    return match[1] if match else ""
