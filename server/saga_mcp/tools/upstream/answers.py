"""What an upstream's answer says: the tool's own words unchanged, its result, and whether it failed (S4.5).

Pure. One reading for every role that a tool plays: as a step, as an undo, as a read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Self, cast

import mcp_types as types

from saga_mcp.domain.values import Effect, JsonObject, JsonValue, bytes_of
from saga_mcp.tools.answer_rules import AnswerRules, CompiledRules
from saga_mcp.tools.binding import CannotBind
from saga_mcp.tools.port import ToolAnswer

_LONGEST_ERROR = 2000
_ASKS = "The server asks for input before it does this, which saga-mcp does not pass on."
_BEFORE_THE_TOOL = frozenset({types.METHOD_NOT_FOUND, types.INVALID_PARAMS})
"""Errors of the protocol that usually come before a tool is called; some servers send them from within it."""
_MOST_KEPT = 256_000
"""Bytes of an answer that are stored for a caller whom it did not reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, read."""

    answer: ToolAnswer
    result: JsonValue
    effect: Effect | None = None
    """None: it did its work; else what is known of a failed one's effect."""
    error: str = ""
    undecided: bool = False
    """Whether it did its work could not be told: it is no error of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Reads the answers of one tool."""

    rules: AnswerRules
    compiled: CompiledRules

    @classmethod
    def of(cls, rules: AnswerRules) -> Self:
        """Compile the rules of a tool.

        Raises:
            TemplateError: one of them does not compile.
        """
        return cls(rules=rules, compiled=rules.compiled())

    def by(self, frozen: AnswerRules | None) -> Answers:
        """What reads them by rules that were frozen earlier; None: nobody knows others than these.

        Raises:
            TemplateError: one of them does not compile.
        """
        return self if frozen is None or frozen == self.rules else Answers.of(frozen)

    def read(self, raw: JsonObject, args: JsonObject) -> Answer:
        """Read a result as the upstream sent it.

        What cannot be evaluated is never taken for a success, nor for a failure without effect (S11.3).
        """
        if wrong := _unreadable(raw):
            return _says_nothing(wrong)
        answer = tool_answer(raw)
        if raw.get("resultType") == "input_required":
            # An agent's client would be asked; for a step that may run without one, nobody is.
            asks: JsonObject = {"type": "text", "text": _ASKS}
            answer = replace(answer, content=(*answer.content, asks), is_error=True)
        values: dict[str, JsonValue] = {"args": args, "text": answer.text, "content": [*answer.content]}
        doubt = ""
        try:
            result = default_result(answer) if self.compiled.result is None else self.compiled.result.bind(values)
        except CannotBind as unbound:
            # The same rule would read the answer of a failure: that one is judged without it.
            result, doubt = default_result(answer), f"its result cannot be read: {unbound}"
        values["result"] = result
        try:
            failed = answer.is_error or self.compiled.failed_when.holds(values)
        except CannotBind as unbound:
            failed, doubt = True, f"failed_when cannot be evaluated: {unbound}"
        if not failed and not doubt:
            return Answer(answer=answer, result=result)
        if not answer.is_error and doubt:
            return Answer(answer=answer, result=result, effect=Effect.UNKNOWN, error=doubt, undecided=True)
        error = answer.text[:_LONGEST_ERROR] or "the tool says that it failed"
        return Answer(answer=answer, result=result, effect=self._effect(values), error=error)

    def declined(self, code: int, message: str, args: JsonObject) -> Effect:
        """What an error of the protocol proves; for conditions its message is the text."""
        if code == types.PARSE_ERROR:  # of an answer that nobody could read, whatever it said
            return Effect.UNKNOWN
        values: dict[str, JsonValue] = {"args": args, "text": message, "content": [], "result": {}}
        return self._effect(values, proves_by_itself=code in _BEFORE_THE_TOOL)

    def _effect(self, values: dict[str, JsonValue], *, proves_by_itself: bool = True) -> Effect:
        """What is declared holds for every error; where nothing is, its sort says it (S4.5)."""
        if self.compiled.no_effect_when is None:
            nothing = self.rules.error_means != "unknown" and proves_by_itself
            return Effect.NONE if nothing else Effect.UNKNOWN
        try:
            return Effect.NONE if self.compiled.no_effect_when.holds(values) else Effect.UNKNOWN
        except CannotBind:
            return Effect.UNKNOWN


def _unreadable(raw: JsonObject) -> str:
    """What is wrong with a result that is none of the protocol; empty: it can be read.

    As lenient as clients are: `content` may be left out, and blocks of kinds that are not known here are passed on.
    """
    content = raw.get("content", [])
    if not isinstance(content, list):
        return "content is no list"
    for place, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return f"content[{place}] is no block"
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            return f"content[{place}] has no text"
    if not isinstance(raw.get("isError"), bool | None):
        return "isError is neither true nor false"
    return ""


def _says_nothing(wrong: str) -> Answer:
    """An answer that cannot be read proves neither that its call did its work nor that it did not (S4.5)."""
    error = f"the server's answer cannot be read ({wrong}), so that nobody can tell what the call did"
    block: JsonObject = {"type": "text", "text": f"{error[0].upper()}{error[1:]}."}
    answer = ToolAnswer(content=(block,), is_error=True)
    return Answer(answer=answer, result={}, effect=Effect.UNKNOWN, error=error, undecided=True)


def tool_answer(raw: JsonObject) -> ToolAnswer:
    """Return a result of the protocol as the port knows it; what it lacks is left out."""
    content, is_error = raw.get("content"), raw.get("isError")
    meta = raw.get("_meta")
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    return ToolAnswer(
        content=tuple(cast("JsonObject", block) for block in blocks if isinstance(block, dict)),
        structured=raw.get("structuredContent"),
        has_structured=raw.get("structuredContent") is not None,
        is_error=is_error is not None and is_error is not False,  # what is no boolean is no success either
        meta=meta if isinstance(meta, dict) else None,
    )


def default_result(answer: ToolAnswer) -> JsonValue:
    """Return the structured content; else what the text is as JSON; else an empty object."""
    if answer.has_structured:
        return answer.structured
    try:
        return cast("JsonValue", json.loads(answer.text))
    except (ValueError, RecursionError):
        return {}


def kept_of(answer: ToolAnswer, result: JsonValue) -> JsonValue:
    """Return what is stored of an answer besides its result; None where that is too much."""
    kept: JsonObject = {"content": [*answer.content], "meta": answer.meta}
    if answer.has_structured and answer.structured is not result:
        kept["structured"] = answer.structured
    else:
        kept["structured_is_result"] = answer.has_structured
    if bytes_of(kept) > _MOST_KEPT:
        return None
    return kept


def answer_of(result: JsonValue, kept: JsonValue) -> ToolAnswer:
    """Return the answer that was stored; one that was too long shows its result only."""
    if not isinstance(kept, dict):
        text = json.dumps(result, ensure_ascii=False)
        structured = result if isinstance(result, dict) and result else None
        return ToolAnswer(
            content=({"type": "text", "text": text},), structured=structured, has_structured=structured is not None
        )
    given = result if kept.get("structured_is_result") else kept.get("structured")
    return ToolAnswer(
        content=tuple(cast("list[JsonObject]", kept["content"])),
        structured=given,
        has_structured=given is not None,
        meta=cast("JsonObject | None", kept["meta"]),
    )
