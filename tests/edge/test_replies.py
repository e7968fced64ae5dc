"""What a governed call answers: the tool's own words unchanged, and the saga facts beside them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.edge.scripted import (
    OBJECT,
    SAGA_ID,
    UNDONE,
    Script,
    call,
    done,
    says,
    told_tool,
)
from tests.edge.served import ERAS, facts_of, meta_of, texts_of

from saga_mcp.domain.values import JsonObject, JsonValue, Kind
from saga_mcp.engine.port import CallReply
from saga_mcp.tools.port import ToolAnswer


@pytest.mark.case(88)
@pytest.mark.parametrize("era", ERAS)
async def test_all_parts_of_a_tools_error_reach_the_agent_with_the_saga_facts_beside_them(era: str) -> None:
    image: JsonObject = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    answer = ToolAnswer(
        content=({"type": "text", "text": "too many"}, image),
        structured={"code": 429},
        has_structured=True,
        is_error=True,
        meta={"vendor/trace": "t-1"},
    )
    reply = CallReply(answer=answer, code="step_failed", saga_id=SAGA_ID, saga=UNDONE, step=2)
    result = await call(Script(reply), era)
    assert result.is_error is True
    assert texts_of(result)[0] == "too many"
    assert result.content[1].model_dump(by_alias=True, exclude_none=True) == image
    assert result.structured_content == {
        "code": 429,
        "saga": {"id": SAGA_ID, "state": "compensated", "step": 2, "code": "step_failed"},
    }
    assert meta_of(result)["vendor/trace"] == "t-1"
    assert facts_of(result)["code"] == "step_failed"
    assert facts_of(result)["summary"] == "compensated: 1 undone, 1 without effect, 0 open"


@pytest.mark.parametrize("era", ERAS)
async def test_a_structured_error_of_a_tool_with_an_output_schema_becomes_text(era: str) -> None:
    """The TypeScript SDK 1.x applies the schema to errors too, and throws."""
    answer = ToolAnswer(content=(), structured={"code": 429}, has_structured=True, is_error=True)
    reply = CallReply(answer=answer, code="step_failed", saga_id=SAGA_ID, saga=UNDONE, step=2)
    result = await call(Script(reply), era, told_tool(output=OBJECT))
    assert result.structured_content is None
    assert texts_of(result)[0] == '{"code": 429}'
    assert facts_of(result)["code"] == "step_failed"


@pytest.mark.parametrize("era", ERAS)
async def test_a_structured_result_gains_the_facts_its_schema_was_opened_for(era: str) -> None:
    """The SDK's client validates against the advertised schema, and throws where it does not hold."""
    closed: JsonObject = {**OBJECT, "additionalProperties": False}
    answer = ToolAnswer(content=(), structured={"n": 1}, has_structured=True)
    result = await call(Script(done(answer)), era, told_tool(output=closed))
    assert result.structured_content == {"n": 1, "saga": {"id": SAGA_ID, "state": "active", "step": 1}}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("value", [[1, 2], "text", None, {"a": 1}])
async def test_a_structured_result_that_cannot_hold_the_facts_becomes_text(era: str, value: JsonValue) -> None:
    output: JsonObject = {"anyOf": [{"type": "array"}, {"type": "object"}]}
    answer = ToolAnswer(content=(), structured=value, has_structured=True)
    result = await call(Script(done(answer)), era, told_tool(output=output))
    assert result.structured_content is None
    assert texts_of(result)[0] == {"text": '"text"', "None": "null"}.get(str(value), str(value).replace("'", '"'))
    assert facts_of(result)["step"] == 1


async def test_a_text_that_says_the_structured_result_already_is_not_repeated() -> None:
    answer = ToolAnswer(content=({"type": "text", "text": "[ 1 ]"},), structured=[1], has_structured=True)
    result = await call(Script(done(answer)), tool=told_tool(output={"type": "array"}))
    assert len(result.content) == 2


async def test_a_text_beside_a_structured_result_that_says_something_else_stays_beside_it() -> None:
    image: JsonObject = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    answer = ToolAnswer(content=(image, *says("seven").content), structured=[7], has_structured=True)
    result = await call(Script(done(answer)), tool=told_tool(output={"type": "array"}))
    assert texts_of(result)[:2] == ["seven", "[7]"]


async def test_a_tools_own_saga_key_stays_and_ours_moves() -> None:
    answer = ToolAnswer(content=(), structured={"saga": "Edda"}, has_structured=True, meta={"saga": "Njal"})
    output: JsonObject = {"type": "object", "properties": {"saga": {"type": "string"}}}
    result = await call(Script(done(answer)), tool=told_tool(output=output))
    assert result.structured_content["saga"] == "Edda"
    assert result.structured_content["saga__facts"]["id"] == SAGA_ID
    assert meta_of(result)["saga"] == "Njal"
    assert meta_of(result)["saga__facts"]["id"] == SAGA_ID


async def test_the_reply_is_not_signed_by_the_server_behind_us() -> None:
    signed: JsonObject = {"io.modelcontextprotocol/serverInfo": {"name": "github", "version": "1"}, "kept": 1}
    result = await call(Script(done(replace(says("ok"), meta=signed))), "2026-07-28")
    assert meta_of(result)["io.modelcontextprotocol/serverInfo"]["name"] == "saga-mcp"
    assert meta_of(result)["kept"] == 1


async def test_a_read_only_reply_gains_nothing() -> None:
    answer = ToolAnswer(content=({"type": "text", "text": "seen"},), structured={"n": 1}, has_structured=True)
    result = await call(Script(CallReply(answer=answer)), tool=told_tool(kind=Kind.READ_ONLY, output=OBJECT))
    assert texts_of(result) == ["seen"]
    assert result.structured_content == {"n": 1}
    assert result.meta is None


@pytest.mark.case(54)
@pytest.mark.parametrize("era", ERAS)
async def test_what_json_cannot_hold_is_replaced_in_every_part(era: str) -> None:
    """SEMANTICS.md S14.4: never lose an effect because of its receipt."""
    answer = ToolAnswer(
        content=({"type": "text", "text": "half \ud83d"},),
        structured={"n": math.nan, "list": [math.inf, 1.5], "half \ud83d": "\ud83d\ude00"},
        has_structured=True,
        meta={"rate": -math.inf, "inner": {"rate": math.nan}},
    )
    result = await call(Script(done(answer)), era)
    structured = dict(result.structured_content)
    structured.pop("saga")
    assert structured == {"n": None, "list": [None, 1.5], "half \ufffd": "\U0001f600"}
    assert texts_of(result)[0] == "half \ufffd"
    assert meta_of(result)["inner"] == {"rate": None}


@pytest.mark.parametrize("era", ERAS)
async def test_a_content_block_the_protocol_does_not_know_becomes_text(era: str) -> None:
    answer = ToolAnswer(content=({"type": "hologram", "data": 1}, {"type": "image", "nothing": True}))
    result = await call(Script(done(answer)), era)
    assert texts_of(result)[:2] == ['{"type": "hologram", "data": 1}', '{"type": "image", "nothing": true}']


@pytest.mark.case(51)
async def test_integers_that_a_double_cannot_hold_are_also_said_as_text() -> None:
    """Hosts in JavaScript round them."""
    answer = ToolAnswer(content=(), structured={"a/b": [{"id": 2**53 + 1}], "n": 7}, has_structured=True)
    result = await call(Script(done(answer)))
    assert "/a~1b/0/id = 9007199254740993" in texts_of(result)[0]
    assert "/n" not in texts_of(result)[0]
    told = replace(says("id 9007199254740993"), structured={"id": 2**53 + 1}, has_structured=True)
    assert len((await call(Script(done(told)))).content) == 2
