"""The control tools: strict arguments, results that fit their schemas; and who calls."""

from __future__ import annotations

import jsonschema
import pytest
from mcp.client import Client
from tests.edge.scripted import (
    DONE,
    SAGA_ID,
    STUCK,
    UNDOING,
    UNDONE,
    Script,
    done,
    intended,
    saga_of,
    says,
    scripted,
    succeeded,
    told_tool,
)
from tests.edge.served import ERAS, facts_of, meta, text_of, texts_of

from saga_mcp.domain.events import (
    AbortDeferred,
    SagaCommitted,
    SavepointSet,
)
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, Kind
from saga_mcp.engine.port import Caller


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("given", "caller"),
    [
        ({"vscode.conversationId": "c"}, Caller(conversation="vscode.conversationId:c")),
        ({"threadId": "t"}, Caller(conversation="threadId:t")),
        ({"ai.opencode/sessionID": "s"}, Caller(conversation="ai.opencode/sessionID:s")),
        ({"antigravity.google/conversation_id": "a"}, Caller(conversation="antigravity.google/conversation_id:a")),
        ({"claudecode/toolUseId": "u"}, Caller(call_id="u")),
        ({"vscode.conversationId": 5}, Caller()),
        ({"vscode.conversationId": "a\0b", "threadId": "t"}, Caller(conversation="threadId:t")),
        ({}, Caller()),
    ],
)
async def test_the_caller_is_what_the_client_says_of_itself(era: str, given: dict[str, object], caller: Caller) -> None:
    script = Script(done(says("ok")))
    async with Client(scripted(script, told_tool()), mode=era) as client:
        await client.call_tool("act", {}, meta=meta(**given))
    assert script.asked[0][1]["caller"] == caller


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tool", "arguments", "state"),
    [
        ("saga_begin", {"purpose": "p"}, saga_of()),
        ("saga_begin", {"key": "k"}, DONE),
        ("saga_commit", {"saga_id": SAGA_ID}, saga_of(intended(), succeeded(), SagaCommitted(by="agent"))),
        ("saga_abort", {"saga_id": SAGA_ID}, UNDONE),
        ("saga_abort", {"saga_id": SAGA_ID, "to_savepoint": "x"}, saga_of(SavepointSet(name="x"))),
        ("saga_savepoint", {"saga_id": SAGA_ID, "name": "x"}, saga_of(SavepointSet(name="x"))),
        *(("saga_status", {"saga_id": SAGA_ID}, saga) for saga in (saga_of(), DONE, UNDONE, UNDOING, STUCK)),
        ("saga_status", {}, DONE),
    ],
)
async def test_a_control_reply_fits_its_schema_and_says_the_same_in_text(
    era: str, tool: str, arguments: JsonObject, state: Saga
) -> None:
    async with Client(scripted(Script(state=state)), mode=era) as client:
        schemas = {listed.name: listed.output_schema for listed in (await client.list_tools()).tools}
        result = await client.call_tool(tool, arguments)
    assert result.is_error is False, texts_of(result)
    jsonschema.validate(result.structured_content, schemas[tool] or {})
    assert result.structured_content.get("message", text_of(result)) == text_of(result)


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("saga_begin", {"purpse": "x"}, 'no argument "purpse" (did you mean "purpose"?)'),
        ("saga_begin", {"purpose": "x" * 201}, '"purpose": string should have at most 200 characters'),
        ("saga_begin", {"purpose": "a\0b"}, '"purpose": must hold no NUL'),
        ("saga_begin", {"purpose": 5}, '"purpose": input should be a valid string'),
        ("saga_commit", {}, '"saga_id": field required'),
        ("saga_commit", {"saga_id": SAGA_ID, "accept_failed": "all"}, '"accept_failed": input should be a valid list'),
        ("saga_commit", {"saga_id": ""}, '"" is not a saga id'),
        ("saga_abort", {"saga_id": SAGA_ID, "reason": "x" * 201}, '"reason"'),
        ("saga_status", {"saga_id": "sg-nope"}, '"sg-nope" is not a saga id'),
        ("saga_status", {"after_step": -1}, '"after_step"'),
        ("saga_savepoint", {"saga_id": SAGA_ID, "name": ""}, '"name"'),
    ],
)
async def test_bad_arguments_of_a_control_tool_are_named_and_reach_nobody(
    tool: str, arguments: JsonObject, problem: str
) -> None:
    script = Script()
    async with Client(scripted(script), mode="legacy") as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error is True
    assert facts_of(result)["code"] == "invalid_arguments"
    assert problem in text_of(result)
    assert script.asked == []


async def test_control_arguments_reach_the_engine_as_they_were_meant() -> None:
    script = Script(state=DONE)
    async with Client(scripted(script), mode="legacy") as client:
        await client.call_tool("saga_commit", {"saga_id": f" {SAGA_ID.upper()}", "accept_failed": "[2, 3]"})
        await client.call_tool("saga_commit", {"saga_id": SAGA_ID, "accept_failed": [4]})
        await client.call_tool("saga_abort", {"saga_id": SAGA_ID, "reason": "r", "to_savepoint": None})
    assert script.asked == [
        ("commit", {"saga_id": SAGA_ID, "by": "agent", "accept_failed": [2, 3]}),
        ("commit", {"saga_id": SAGA_ID, "by": "agent", "accept_failed": [4]}),
        ("abort", {"saga_id": SAGA_ID, "cause": "agent", "by": "agent", "reason": "r", "to_savepoint": None}),
    ]


async def test_an_abort_that_left_something_is_an_error() -> None:
    async with Client(scripted(Script(state=STUCK), told_tool()), mode="legacy") as client:
        result = await client.call_tool("saga_abort", {"saga_id": SAGA_ID})
    assert result.is_error is True
    assert facts_of(result)["code"] == "needs_person"
    assert "NOT FULLY UNDONE" in text_of(result)


async def test_an_abort_that_waits_for_a_pivot_is_told_as_such() -> None:
    """SEMANTICS.md S7.1."""
    saga = saga_of(intended(1, kind=Kind.PIVOT), AbortDeferred(cause="agent"))
    async with Client(scripted(Script(state=saga), told_tool()), mode="legacy") as client:
        result = await client.call_tool("saga_abort", {"saga_id": SAGA_ID})
    assert result.is_error is True
    assert facts_of(result)["code"] == "step_unsettled"
    assert text_of(result).startswith("Not aborted yet: step 1 act cannot be undone and is not settled.")
