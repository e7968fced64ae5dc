"""Replies: the tool's own answer unchanged, plus the saga facts in the three places clients look at (DESIGN.md 5.3).

Clients differ in what the model sees of a reply: some show only the structured part, some only text, programs read
`_meta`. Whatever goes out passes through `clean`, so that no value can cost the caller the reply to a call that has
taken effect.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge import wording
from saga_mcp.edge.clean import big_integers, clean, present
from saga_mcp.edge.listing import Governed
from saga_mcp.edge.look import Look
from saga_mcp.tools.port import ToolAnswer

_META_KEY = "saga"
_FACTS_ITEMS = 20
_FACTS_INTEGERS = 20
_BLOCK: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def facts(look: Look, *, step: int = 0, code: str = "", opened: bool = False, replayed: bool = False) -> JsonObject:
    """All facts about a saga, for `_meta`; the line that counts its steps only where something came to an end.

    Of a saga that is plainly open, counting would cost each reply a look at every step; `saga_status` counts.
    """
    saga = look.saga
    waiting: list[JsonValue] = [item.name for item in look.items[:_FACTS_ITEMS]]
    all_facts: JsonObject = {
        "id": saga.id,
        "state": look.state,
        "phase": saga.phase.value,
        "step": step or None,
        "steps": len(saga.steps),
        "summary": "" if look.plainly_open else look.summary,
        "cause": saga.cause,
        "items": waiting,
        "opened": opened,
        "replayed": replayed,
        "code": code,
    }
    return present(all_facts)


def brief(look: Look, *, step: int = 0, code: str = "") -> JsonObject:
    """The facts that fit into a structured result; `code` only where it is an error, which no schema restrains."""
    return present({"id": look.saga.id, "state": look.state, "step": step or None, "code": code})


def read_reply(answer: ToolAnswer, tool: Governed) -> types.CallToolResult:
    """The reply of a read-only tool: it gains nothing."""
    structured = _kept(answer, tool)
    if _unfit(answer, tool, structured):
        return _told_as_error(answer, tool, _meta(answer) or {}, {}, [])
    return _result(
        [*_blocks(answer), *_left_out(answer, structured)],
        structured=structured,
        is_error=answer.is_error,
        meta=_meta(answer),
    )


def step_reply(
    answer: ToolAnswer, tool: Governed, all_facts: JsonObject, few: JsonObject, texts: Sequence[str]
) -> types.CallToolResult:
    """The reply of a step that has its tool's answer.

    Args:
        answer: what the tool said.
        tool: the tool, which says where the facts go.
        all_facts: for `_meta`.
        few: for an object-valued structured result.
        texts: the last text blocks.
    """
    kept = _kept(answer, tool)
    integers = {}
    if answer.has_structured:
        integers = {at: digits for at, digits in big_integers(answer.structured).items() if digits not in answer.text}
    if integers:
        shown = dict(list(integers.items())[:_FACTS_INTEGERS])
        texts = [wording.exact(shown), *texts]
    meta = _meta(answer) or {}
    structured: JsonObject | None = None
    if kept is not None:
        # A tool without an output schema may have a key of that name all the same.
        structured = {**kept, "saga__facts" if tool.facts_name in kept else tool.facts_name: few}
    if _unfit(answer, tool, structured):
        return _told_as_error(answer, tool, meta, all_facts, texts)
    return _result(
        [*_blocks(answer), *_left_out(answer, structured), *map(_text, texts)],
        structured=structured,
        is_error=answer.is_error,
        meta=_with_facts(meta, all_facts),
    )


def _unfit(answer: ToolAnswer, tool: Governed, structured: JsonObject | None) -> bool:
    """Whether strict clients would throw this success away, because it is not what the output schema promises."""
    if answer.is_error or tool.promise is None:
        return False
    return structured is None or not tool.promise.kept_by(structured)


def _told_as_error(
    answer: ToolAnswer, tool: Governed, meta: JsonObject, all_facts: JsonObject, texts: Sequence[str]
) -> types.CallToolResult:
    """A success as clients deliver it whatever the schema says: errors are exempt from it (docs/decisions.md)."""
    first = wording.unfit_answer(tool.listed.name)
    return _result(
        [_text(first), *_blocks(answer), *_left_out(answer, None), *map(_text, texts)],
        structured=None,
        is_error=True,
        meta=_with_facts(meta, {**all_facts, "code": "unfit_answer"}),
    )


def _with_facts(meta: JsonObject, all_facts: JsonObject) -> JsonObject:
    return {**meta, ("saga__facts" if _META_KEY in meta else _META_KEY): all_facts}


def refusal(
    code: str, text: str, *, look: Look | None = None, saga_id: str = "", step: int = 0
) -> types.CallToolResult:
    """A tool error in our own words: what happened, what to do next, and a stable code.

    Args:
        code: what programs tell it by.
        text: what models read; its first sentence counts.
        look: the state, where it is known.
        saga_id: the saga's name, where its state is not known.
        step: number of the step; 0: none.
    """
    structured: JsonObject = {"error": {"code": code, "message": text}}
    meta = present({"id": saga_id, "code": code})
    if look is not None:
        structured["saga"] = brief(look, step=step, code=code)
        meta = facts(look, step=step, code=code)
    return _result([_text(text)], structured=structured, is_error=True, meta={_META_KEY: meta})


def readable_error(reply: types.CallToolResult, listed: types.Tool) -> types.CallToolResult:
    """Return `reply`; an error of a tool that has an output schema loses its structured part.

    A tool's schema says nothing about errors, but the TypeScript SDK 1.x applies it to them: it throws, and its host
    never sees what ours says (measured on 1.32).
    """
    if not reply.is_error or _may_be_structured(listed):
        return reply
    return _result(reply.content, structured=None, is_error=True, meta=cast("JsonObject | None", reply.meta))


def with_notice(reply: types.CallToolResult, notice: str) -> types.CallToolResult:
    """Return `reply` with something that every reply of this server says: as its last text, and for programs."""
    said = cast("JsonObject", {**(reply.meta or {}), "saga__notice": notice})
    structured = cast("JsonObject | None", reply.structured_content)
    return _result([*reply.content, _text(notice)], structured=structured, is_error=bool(reply.is_error), meta=said)


def control_reply(text: str, structured: JsonObject, *, look: Look | None = None) -> types.CallToolResult:
    """The reply of a control tool."""
    meta: JsonObject | None = None if look is None else {_META_KEY: facts(look)}
    return _result([_text(text)], structured=structured, is_error=False, meta=meta)


def _kept(answer: ToolAnswer, tool: Governed) -> JsonObject | None:
    """The structured result that may stay, or None where it is left out (S11.1)."""
    if not isinstance(answer.structured, dict):
        return None
    keeps = _may_be_structured(tool.listed) if answer.is_error else tool.keeps_structured
    return answer.structured if keeps else None


def _may_be_structured(listed: types.Tool) -> bool:
    """Whether an error of that tool may have a structured part; see `readable_error`."""
    return listed.output_schema is None


def _left_out(answer: ToolAnswer, kept: JsonObject | None) -> list[types.ContentBlock]:
    """What of a structured result has to be said in a text block, unless one says it already."""
    if kept is not None or not answer.has_structured or _says(answer, answer.structured):
        return []
    return [_text(json.dumps(clean(answer.structured), ensure_ascii=False))]


def _says(answer: ToolAnswer, value: JsonValue) -> bool:
    for block in answer.content:
        text = block.get("text")
        if isinstance(text, str):
            try:
                said = cast("JsonValue", json.loads(text))
            except ValueError:
                continue
            if said == value:
                return True
    return False


def _blocks(answer: ToolAnswer) -> list[types.ContentBlock]:
    return [_block(block) for block in answer.content]


def _block(block: JsonObject) -> types.ContentBlock:
    """A content block as it came; one that the protocol does not know becomes text, or the reply would be lost."""
    plain = clean(block)
    match plain:
        case {"type": "text", "text": str() as text, **rest} if not rest:  # nearly all are
            return types.TextContent(type="text", text=text)
        case _:
            pass
    try:
        return _BLOCK.validate_python(plain)
    except ValidationError:
        return _text(json.dumps(plain, ensure_ascii=False))


def _meta(answer: ToolAnswer) -> JsonObject | None:
    """The answer's own `_meta`, without the name of the server behind us: this reply is ours."""
    if answer.meta is None:
        return None
    return {name: value for name, value in answer.meta.items() if name != types.SERVER_INFO_META_KEY}


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=cast("str", clean(text)))


def _result(
    content: list[types.ContentBlock], *, structured: JsonObject | None, is_error: bool, meta: JsonObject | None
) -> types.CallToolResult:
    fields: dict[str, Any] = {"content": content, "is_error": is_error}
    if structured is not None:
        fields["structured_content"] = clean(structured)
    if meta is not None:
        fields["meta"] = clean(meta)
    return types.CallToolResult(**fields)
