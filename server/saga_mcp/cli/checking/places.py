"""What a pair says, place by place: every expression with what it may see there, and every call. Pure.

One walk over a pair for whoever has to look at all of it; a new key of a pair is added here once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias, cast

from saga_mcp.cli.checking.schemas import ANYTHING, Found, Schema, look_up
from saga_mcp.config.problems import KeyPath
from saga_mcp.domain.values import JsonObject, JsonValue, PartAction
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.binding import TemplateError, compile_template
from saga_mcp.tools.pair import Capture, Pair, Probe, ReadCall, UndoEntry
from saga_mcp.tools.undo_plan import late_args
from saga_mcp.tools.variables import AFTER_OUTCOME, BEFORE_INTENT

Scope: TypeAlias = Mapping[str, Schema]
"""What variables hold, by name."""

_NOT_SENT = "nothing would be sent"
_NOT_BUILT = "its undo could not be built"
_ASKS = "its undo would wait for a person"
_NOT_KNOWN = "whether it took effect would stay unknown"
_TEXT: Schema = {"type": "string"}


@dataclass(frozen=True)
class Shape:
    """What is known of a tool's calls and answers, as plain schemas."""

    takes: Schema = field(default_factory=dict[str, JsonValue])
    gives: Schema = field(default_factory=dict[str, JsonValue])

    @cached_property
    def image(self) -> Schema:
        """What a capture that calls it holds."""
        return _object(found={"const": True}, result=self.gives, text=_TEXT)

    @cached_property
    def answer(self) -> Schema:
        """What `now` and `read` hold after it was called."""
        return _object(text=_TEXT, result=self.gives, error={"const": ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One expression, or text with some in it, where it stands."""

    path: KeyPath
    value: JsonValue
    scope: Scope
    """Of all variables that it may name."""
    otherwise: str
    """What becomes of a step for which it has no value."""
    condition: bool = False
    undecided: bool = False
    """Null is an answer of the condition too."""
    listed: bool = False
    """It has to come to a list."""
    gates: tuple[Spot, ...] = ()
    """Conditions without which it is not looked at."""
    argument: tuple[str, str] | None = None
    """The tool, and the argument of it, that it is the value of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that a pair may make."""

    path: KeyPath
    tool: str
    args: JsonObject
    reads: bool
    """It is made to look, so the tool may only read."""


class Places:
    """Walks pairs.

    Args:
        shapes: What is known of tools, by name in the config.
        offered: The names under which agents see them, by name in the config.
    """

    def __init__(self, shapes: Mapping[str, Shape], offered: Mapping[str, str]) -> None:
        self._shapes = shapes
        self._results: Schema = {
            "type": "object",
            "properties": {name: self.shape(tool).gives for tool, name in offered.items()},
            "additionalProperties": False,
        }

    def shape(self, tool: str) -> Shape:
        """What is known of a tool."""
        return self._shapes.get(tool, _UNKNOWN)

    def of(self, pair: Pair, written: Mapping[str, object]) -> Iterator[Spot | Call]:
        """Every place of a pair.

        Args:
            pair: As it was made of its table.
            written: The table, as the file has it: a single undo has no index there.
        """
        yield from self._of(pair, ("tools", pair.tool), written, ())

    def rules(self, rules: AnswerRules, path: KeyPath, written: Mapping[str, object], tool: str = "") -> Iterator[Spot]:
        """How answers are read.

        Args:
            rules: Of an upstream, or of one tool.
            path: Where they stand.
            written: The table there; only what it says itself is looked at.
            tool: Of which tool; empty: of all of an upstream.
        """
        # A failure need not look as the schema promises of a success, so of `result` nothing is known.
        scope: Scope = {"args": self.shape(tool).takes, "text": _TEXT, "content": ANYTHING}
        judged = {**scope, "result": ANYTHING}
        for word, value in (("failed_when", rules.failed_when), ("no_effect_when", rules.no_effect_when)):
            if word in written and value is not None:
                yield Spot(path=(*path, word), value=value, scope=judged, otherwise=_NOT_KNOWN, condition=True)
        if "result" in written:
            yield Spot(path=(*path, "result"), value=rules.result, scope=scope, otherwise=_NOT_KNOWN)

    def _of(
        self, pair: Pair, path: KeyPath, written: Mapping[str, object], gates: tuple[Spot, ...]
    ) -> Iterator[Spot | Call]:
        scope = self._scope(pair)
        early = {name: scope[name] for name in BEFORE_INTENT}
        late = {name: scope[name] for name in AFTER_OUTCOME}
        spot = Spot(path=path, value="", scope=early, otherwise=_NOT_SENT, gates=gates)
        if isinstance(pair.approval, str):
            otherwise = "a person is asked then"
            yield replace(spot, path=(*path, "approval"), value=pair.approval, otherwise=otherwise, condition=True)
        if pair.resource:
            yield replace(spot, path=(*path, "resource"), value=pair.resource)
        for word, capture, seen in (("capture", pair.capture, early), ("after", pair.after, late)):
            if capture is not None:
                otherwise = _NOT_SENT if word == "capture" else _NOT_BUILT
                yield from self._capture(capture, replace(spot, path=(*path, word), scope=seen, otherwise=otherwise))
        if pair.guard is not None and pair.guard.call is not None:
            call, at = pair.guard.call, replace(spot, path=(*path, "guard"), scope=late, otherwise=_ASKS)
            yield from self._call(call, at)
            seen = {**late, "now": self.shape(call.tool).answer}
            for word, value in (("as_left", pair.guard.as_left), ("as_before", pair.guard.as_before)):
                yield replace(at, path=(*at.path, word), value=value, condition=True, scope=seen)
        if pair.probe is not None:
            yield from self._probe(pair.probe, replace(spot, path=(*path, "probe"), scope=late))
        single = isinstance(written.get("undo"), dict)
        for number, entry in enumerate(pair.undo):
            place: KeyPath = (*path, "undo") if single else (*path, "undo", number)
            yield from self._entry(entry, replace(spot, path=place, scope=late, otherwise=_NOT_BUILT))
        for number, case in enumerate(pair.cases):
            place = (*path, "cases", number)
            when = replace(spot, path=(*place, "when"), value=case.when, condition=True)
            yield when
            yield from self._of(case.pair, place, table_at(written, "cases", number), (*gates, when))

    def _scope(self, pair: Pair) -> Scope:
        shape = self.shape(pair.tool)
        return {
            "args": shape.takes,
            "result": shape.gives,
            "known": {"const": True},
            "text": _TEXT,
            "capture": self._image(pair.capture),
            "after": self._image(pair.after),
            "saga": _object(id={"const": "sg-0"}),
            "step": _object(key={"const": "key"}, number={"const": 1}),
            "results": self._results,
        }

    def _image(self, capture: Capture | None) -> Schema:
        if capture is None:
            return ANYTHING
        image = self.shape(capture.call.tool).image
        if capture.absent_when is False and not capture.null_is_absent:
            return image
        absent = _object(found={"const": False}, result={"const": None}, text={"const": ""})
        return {"anyOf": [image, absent]}

    def _capture(self, capture: Capture, at: Spot) -> Iterator[Spot | Call]:
        yield from self._call(capture.call, at)
        seen = {**at.scope, "now": self.shape(capture.call.tool).answer}
        for word, value in (("absent_when", capture.absent_when), ("exact_when", capture.exact_when)):
            yield replace(at, path=(*at.path, word), value=value, condition=True, scope=seen)

    def _probe(self, probe: Probe, at: Spot) -> Iterator[Spot | Call]:
        at = replace(at, otherwise=_NOT_KNOWN)
        yield from self._call(probe.call, at)
        seen = {**at.scope, "now": self.shape(probe.call.tool).answer}
        yield replace(at, path=(*at.path, "landed"), value=probe.landed, condition=True, undecided=True, scope=seen)
        if probe.result is not None:
            yield replace(at, path=(*at.path, "result"), value=probe.result, scope=seen)

    def _entry(self, entry: UndoEntry, at: Spot) -> Iterator[Spot | Call]:
        when = replace(at, path=(*at.path, "when"), value=entry.when, condition=True)
        yield when
        at = replace(at, gates=(*at.gates, when))
        inside: dict[str, Schema] = {**at.scope}
        if entry.each:
            yield replace(at, path=(*at.path, "each"), value=entry.each, listed=True)
            inside["item"] = _item(entry.each, at.scope)
        inner = replace(at, scope=inside)
        if entry.read is not None:
            yield from self._call(entry.read, replace(inner, path=(*at.path, "read")))
            inside["read"] = self.shape(entry.read.tool).answer
        if entry.message:
            word = "leave" if entry.action is PartAction.LEAVE else "manual"
            yield replace(inner, path=(*at.path, word), value=entry.message)
        if entry.action is not PartAction.CALL:
            return
        yield Call(path=at.path, tool=entry.tool, args=entry.args, reads=False)
        try:
            late = late_args(entry.args, reads=entry.read is not None)
        except TemplateError:
            late = {}
        for name, value in entry.args.items():
            if not isinstance(late.get(name), str):  # `cause` and `step.undo_key` are texts
                place = (*at.path, "args", name)
                yield replace(inner, path=place, value=value, argument=(entry.tool, name))
        if entry.probe is not None:
            yield from self._probe(entry.probe, replace(at, path=(*at.path, "probe")))
        if entry.done_when is not False:
            # An answer that says "no" need not be what the schema promises of one that says "yes".
            now = _object(text=_TEXT, result=ANYTHING, error=_TEXT)
            seen = {**at.scope, "now": now}
            done = replace(at, path=(*at.path, "done_when"), value=entry.done_when, condition=True, scope=seen)
            yield replace(done, otherwise=_NOT_KNOWN)

    def _call(self, call: ReadCall, at: Spot) -> Iterator[Spot | Call]:
        yield Call(path=at.path, tool=call.tool, args=call.args, reads=True)
        for name, value in call.args.items():
            yield replace(at, path=(*at.path, "args", name), value=value, argument=(call.tool, name))


_UNKNOWN = Shape()


def table_at(content: object, *path: str | int) -> Mapping[str, object]:
    """A table of the config as the file has it; an empty one where there is something else."""
    for part in path:
        if isinstance(part, str) and isinstance(content, dict):
            content = cast("dict[str, object]", content).get(part)
        elif isinstance(part, int) and isinstance(content, list) and part < len(cast("list[object]", content)):
            content = cast("list[object]", content)[part]
        else:
            return {}
    return cast("Mapping[str, object]", content) if isinstance(content, dict) else {}


def _object(**members: Schema) -> Schema:
    named = cast("JsonObject", members)
    return {"type": "object", "properties": named, "required": [*members], "additionalProperties": False}


def _item(each: str, scope: Scope) -> Schema:
    """What one item of a list is, where the list stands at a plain path."""
    try:
        (placed,) = compile_template(each, variables=frozenset(scope)).expressions
    except (TemplateError, ValueError):
        return ANYTHING
    path = placed.expression.plain
    found = look_up(_object(**scope), (*path, 0)) if path else None
    return {"anyOf": [*found.schemas]} if isinstance(found, Found) else ANYTHING
