"""What a governed call answers: the tool's own words unchanged, the saga facts beside them, refusals with codes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import anyio
import jsonschema
import mcp_types as types
import pytest
from mcp.client import Client
from structlog.testing import capture_logs
from tests.edge.scripted import (
    DONE,
    SAGA_ID,
    Script,
    ToldTool,
    done,
    intended,
    saga_of,
    says,
    scripted,
    succeeded,
    told_tool,
)
from tests.edge.served import ERAS, facts_of, meta, meta_of, text_of, texts_of

from saga_mcp.domain.errors import (
    CommitRefused,
    LogConflict,
    LogUnavailable,
    Refused,
    SagaAborted,
    SagaClosed,
    SagaNotFound,
    SagaQuarantined,
    StepUnsettled,
)
from saga_mcp.domain.events import (
    AbortDeferred,
    AbortRequested,
    RollbackFinished,
    SagaCommitted,
    SavepointSet,
    StepFailed,
    StepFellInDoubt,
    UndoIntended,
    UndoParked,
    UndoSucceeded,
)
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, JsonObject, JsonValue, Kind, PartAction
from saga_mcp.engine.port import Caller, CallReply, SagaIdMissing, SagaIdMistyped
from saga_mcp.tools.port import InvalidArguments, ToolAnswer

OBJECT: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

UNDONE = saga_of(
    intended(1),
    succeeded(1),
    intended(2, "shop.fail"),
    StepFailed(step=2, error="declined"),
    AbortRequested(cause="step_failed:2", by="policy"),
    UndoIntended(step=1, part="1", owner="me"),
    UndoSucceeded(step=1, part="1"),
    RollbackFinished(),
)
UNDOING = saga_of(
    intended(1),
    succeeded(1),
    intended(2),
    succeeded(2),
    intended(3, "shop.fail"),
    StepFailed(step=3, error="declined"),
    AbortRequested(cause="step_failed:3", by="policy"),
    UndoIntended(step=2, part="1", owner="me"),
    UndoSucceeded(step=2, part="1"),
)
STUCK = saga_of(
    intended(1),
    succeeded(1, PartAction.MANUAL, "Mail to secret@example.org was sent."),
    intended(2, "shop.fail"),
    StepFailed(step=2, error="declined"),
    AbortRequested(cause="step_failed:2", by="policy"),
    UndoParked(step=1, part="1", item=ItemKind.MANUAL_UNDO, message="Mail to secret@example.org was sent."),
)


async def call(
    script: Script, era: str = "legacy", tool: ToldTool | None = None, **arguments: JsonValue
) -> types.CallToolResult:
    server = scripted(script, tool or told_tool())
    async with Client(server, mode=era) as client:
        await client.list_tools()
        return await client.call_tool("act", arguments)


@pytest.mark.parametrize("era", ERAS)
async def test_all_parts_of_a_tools_error_reach_the_agent_with_the_saga_facts_beside_them(era: str) -> None:
    """CASES C88."""
    image: JsonObject = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    answer = ToolAnswer(
        content=({"type": "text", "text": "too many"}, image),
        structured={"code": 429},
        has_structured=True,
        is_error=True,
        meta={"vendor/trace": "t-1"},
    )
    reply = CallReply(answer=answer, code="step_failed", saga_id=SAGA_ID, saga=UNDONE, step=2)
    result = await call(Script(reply), era, told_tool(output=OBJECT))
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


async def test_a_tools_own_saga_key_stays_and_ours_moves() -> None:
    answer = ToolAnswer(content=(), structured={"saga": "Edda"}, has_structured=True, meta={"saga": "Njal"})
    output: JsonObject = {"type": "object", "properties": {"saga": {"type": "string"}}}
    result = await call(Script(done(answer)), tool=told_tool(output=output))
    assert result.structured_content["saga"] == "Edda"
    assert result.structured_content["saga__facts"]["id"] == SAGA_ID
    assert meta_of(result)["saga"] == "Njal"
    assert meta_of(result)["saga__facts"]["id"] == SAGA_ID


async def test_a_read_only_reply_gains_nothing() -> None:
    answer = ToolAnswer(content=({"type": "text", "text": "seen"},), structured={"n": 1}, has_structured=True)
    result = await call(Script(CallReply(answer=answer)), tool=told_tool(kind=Kind.READ_ONLY, output=OBJECT))
    assert texts_of(result) == ["seen"]
    assert result.structured_content == {"n": 1}
    assert result.meta is None


@pytest.mark.parametrize("era", ERAS)
async def test_what_json_cannot_hold_is_replaced_in_every_part(era: str) -> None:
    """CASES C54, SEMANTICS.md S14.4: never lose an effect because of its receipt."""
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


async def test_integers_that_a_double_cannot_hold_are_also_said_as_text() -> None:
    """CASES C51: hosts in JavaScript round them."""
    answer = ToolAnswer(content=(), structured={"a/b": [{"id": 2**53 + 1}], "n": 7}, has_structured=True)
    result = await call(Script(done(answer)))
    assert "/a~1b/0/id = 9007199254740993" in texts_of(result)[0]
    assert "/n" not in texts_of(result)[0]
    told = replace(says("id 9007199254740993"), structured={"id": 2**53 + 1}, has_structured=True)
    assert len((await call(Script(done(told)))).content) == 2


# --- the last text block ----------------------------------------------------------------------------------------------


async def test_the_first_reply_says_how_to_finish_and_later_ones_are_short() -> None:
    script = Script()
    last: list[str] = []
    async with Client(scripted(script, told_tool()), mode="legacy") as client:
        for number in range(1, 13):
            events = [event for n in range(1, number + 1) for event in (intended(n), succeeded(n))]
            script.reply = done(says("ok"), saga_of(*events), number)
            last.append(text_of(await client.call_tool("act", {"saga_id": SAGA_ID})))
    long = "Finish: saga_commit keeps all, saga_abort undoes all.]"
    assert last[0] == f"[saga {SAGA_ID}: step 1 done, undo ready. {long}"
    assert last[1] == f"[saga {SAGA_ID} open, 2 steps]"
    assert [number for number, text in enumerate(last, 1) if text.endswith(long)] == [1, 11]


@pytest.mark.parametrize(
    ("saga", "step", "text"),
    [
        (
            UNDONE,
            2,
            (
                "UNDONE: step 2 fail failed; all 2 steps are undone or had no effect, nothing is open. "
                "This id is closed. Do not undo anything yourself. Do not repeat the same call: fix the cause and "
                "start over with saga_begin, or tell the user.]"
            ),
        ),
        (
            UNDOING,
            3,
            (
                "BEING UNDONE: step 3 fail failed; 1 of 2 undone so far. Closed to new calls. "
                "saga_status tells the end.]"
            ),
        ),
        (
            STUCK,
            2,
            (
                f"NOT FULLY UNDONE: act waits for a person (item {SAGA_ID}.1). Tell the user. "
                "Do not try to repair it with other tools.]"
            ),
        ),
    ],
)
async def test_an_abort_is_told_as_far_as_it_went(saga: Saga, step: int, text: str) -> None:
    """WORDING.md; no reply ever says "clean" when something was left (DESIGN.md rule 4)."""
    answer = ToolAnswer(content=({"type": "text", "text": "declined"},), is_error=True)
    reply = CallReply(answer=answer, code="step_failed", saga_id=SAGA_ID, saga=saga, step=step)
    server = scripted(Script(reply), told_tool(), told_tool("fail"))
    async with Client(server, mode="legacy") as client:
        result = await client.call_tool("fail", {"saga_id": SAGA_ID})
    assert texts_of(result) == ["declined", f"[saga {SAGA_ID} {text}"]
    assert "secret@example.org" not in result.model_dump_json()


async def test_residue_and_exemptions_are_never_told_as_undone() -> None:
    residue = saga_of(
        intended(1),
        succeeded(1, PartAction.LEAVE, "branch x"),
        AbortRequested(cause="agent"),
        UndoSucceeded(step=1, part="1"),
        RollbackFinished(),
    )
    script = Script(state=residue)
    async with Client(scripted(script), mode="legacy") as client:
        result = await client.call_tool("saga_abort", {"saga_id": SAGA_ID})
    assert "1 residue, 0 open" in text_of(result)
    assert "undone or had no effect" not in text_of(result)


async def test_the_third_automatic_abort_by_the_same_tool_and_error_says_stop() -> None:
    answer = ToolAnswer(content=({"type": "text", "text": "declined"},), is_error=True)
    script = Script(CallReply(answer=answer, code="step_failed", saga_id=SAGA_ID, saga=UNDONE, step=2))
    async with Client(scripted(script, told_tool("fail")), mode="legacy") as client:
        replies = [text_of(await client.call_tool("fail", {"saga_id": SAGA_ID})) for _ in range(3)]
        elsewhere = await client.call_tool(
            "fail", {"saga_id": SAGA_ID}, meta=meta(**{"vscode.conversationId": "other"})
        )
    assert ["Third time: stop and tell the user." in text for text in replies] == [False, False, True]
    assert "Third time" not in text_of(elsewhere)


async def test_a_sibling_of_a_failed_step_keeps_its_own_result_and_learns_of_the_abort() -> None:
    """SEMANTICS.md S4.3."""
    result = await call(Script(done(says("mine"), UNDOING, 2)), saga_id=SAGA_ID)
    assert result.is_error is False
    assert texts_of(result)[0] == "mine"
    assert "BEING UNDONE: step 3 shop.fail failed" in text_of(result)


async def test_a_step_whose_undo_cannot_be_built_says_so_now() -> None:
    """SEMANTICS.md S6.1."""
    saga = saga_of(intended(1), replace(succeeded(1), parts=None, build_error="no id"))
    result = await call(Script(done(says("ok"), saga)))
    assert "step 1 done, but its undo cannot be built" in text_of(result)


async def test_parallel_calls_that_opened_a_saga_each_are_told_so() -> None:
    """SEMANTICS.md S1.5."""

    class Slow(Script):
        async def call(
            self,
            offered: str,
            arguments: Mapping[str, JsonValue],
            *,
            saga_id: str | None = None,
            step_key: str = "",
            caller: Caller,
        ) -> CallReply:
            _ = arguments, saga_id, step_key, caller
            started.append(offered)
            opened = replace(DONE, id=f"sg-{len(started)}")
            if len(started) == 2:
                both.set()
            await both.wait()
            return CallReply(answer=says("ok"), saga_id=opened.id, saga=opened, step=1, opened=True)

    started: list[str] = []
    both = anyio.Event()
    replies: list[list[str]] = []

    async with Client(scripted(Slow(), told_tool()), mode="legacy") as client:

        async def one() -> None:
            replies.append(texts_of(await client.call_tool("act", {})))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one)
                tasks.start_soon(one)
    assert [len(texts) for texts in replies] == [2, 3]
    assert "opened 2 sagas: sg-1, sg-2" in replies[1][1] or "opened 2 sagas: sg-2, sg-1" in replies[1][1]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("error", "code", "first"),
    [
        (SagaNotFound("sg-x"), "saga_not_found", 'No saga "sg-x" of yours. Nothing was sent.'),
        (SagaClosed("sg-x"), "saga_closed", "Saga sg-x is committed and closed. Nothing was sent."),
        (SagaAborted("sg-x", "step 3 shop.act"), "saga_aborted", "Saga sg-x was aborted (by step 3 act); its steps"),
        (SagaQuarantined("sg-x", "unknown event"), "saga_quarantined", "Saga sg-x is quarantined"),
        (StepUnsettled("Nothing was sent: wait."), "step_unsettled", "Nothing was sent: wait."),
        (CommitRefused(("step 2 shop.act is unknown",)), "commit_refused", "Not committed: step 2 act is unknown. Use"),
        (
            LogUnavailable("saga log is full; nothing was stored and nothing was sent."),
            "log_unavailable",
            "Saga log is",
        ),
        (LogConflict("others won; nothing was stored."), "log_unavailable", "Others won; nothing was stored."),
        (InvalidArguments(("x: must be 1",)), "invalid_arguments", "Nothing was sent: x: must be 1."),
        (SagaIdMistyped("oops\x1b[2J"), "invalid_arguments", '"oops\\x1b[2J" is not a saga id'),
        (SagaIdMissing(), "saga_id_missing", "Nothing was sent. Call saga_begin first and pass its saga_id."),
    ],
)
async def test_each_refusal_has_a_stable_code_and_says_what_to_do(
    era: str, error: Exception, code: str, first: str
) -> None:
    """CASES C90; also where the tool has an output schema, which clients do not apply to errors."""
    result = await call(Script(error), era, told_tool(output=OBJECT))
    assert result.is_error is True
    assert text_of(result).startswith(first)
    assert result.structured_content["error"] == {"code": code, "message": text_of(result)}
    assert facts_of(result)["code"] == code


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_an_error_the_model_can_read(era: str) -> None:
    async with Client(scripted(Script(), told_tool("reserve_seat")), mode=era) as client:
        result = await client.call_tool("reserve_seats", {})
    assert result.is_error is True
    assert 'Did you mean "reserve_seat"?' in text_of(result)


@pytest.mark.parametrize("era", ERAS)
async def test_a_bug_of_ours_gives_a_reference_whose_details_only_the_log_has(era: str) -> None:
    """CASES C90, C106."""
    with capture_logs() as logs:
        result = await call(Script(KeyError("sentinel-value")), era, x="sentinel-value")
    assert result.is_error is True
    reference = logs[0]["reference"]
    assert f"reference {reference}" in text_of(result)
    assert "sentinel-value" not in result.model_dump_json()
    assert result.structured_content["error"]["code"] == "internal_error"
    assert {key for key in logs[0] if key != "exc_info"} == {"event", "reference", "tool", "log_level"}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("still_running", "Not an error: act is still running. Do not call it again; saga_status shows its result."),
        ("outcome_unknown", "Outcome of step 1 act is unknown: it may have happened. Do not call it again."),
    ],
)
async def test_a_call_without_an_answer_is_an_error_that_tells_not_to_repeat_it(
    era: str, code: str, first: str
) -> None:
    """SEMANTICS.md S11.1: as a success it would break the output schema, and strict clients would throw."""
    saga = saga_of(intended(1), StepFellInDoubt(step=1, reason="timeout", running=True, parts=()))
    reply = CallReply(code=code, saga_id=SAGA_ID, saga=saga, step=1)
    result = await call(Script(reply), era, told_tool(output=OBJECT))
    assert result.is_error is True
    assert text_of(result).startswith(first)
    assert result.structured_content["error"]["code"] == facts_of(result)["code"] == code
    assert result.structured_content["saga"]["id"] == SAGA_ID


async def test_a_call_whose_intent_is_not_stored_yet_still_names_its_saga() -> None:
    result = await call(Script(CallReply(code="still_running", saga_id=SAGA_ID)))
    assert facts_of(result) == {"id": SAGA_ID, "code": "still_running"}


async def test_refusal_codes_are_those_of_the_contract() -> None:
    """DESIGN.md 5.3 lists them; programs tell refusals by them."""
    known = {
        "saga_not_found", "saga_closed", "saga_aborted", "savepoint_not_found", "step_unsettled", "commit_refused",
        "pivot_passed", "kind_refused", "key_reused", "item_refused",
    }  # fmt: skip
    assert {refusal.code for refusal in Refused.__subclasses__()} == known


# --- who calls --------------------------------------------------------------------------------------------------------


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
        ({}, Caller()),
    ],
)
async def test_the_caller_is_what_the_client_says_of_itself(era: str, given: dict[str, object], caller: Caller) -> None:
    script = Script(done(says("ok")))
    async with Client(scripted(script, told_tool()), mode=era) as client:
        await client.call_tool("act", {}, meta=meta(**given))
    assert script.asked[0][1]["caller"] == caller


# --- control tools ----------------------------------------------------------------------------------------------------


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
        await client.call_tool("saga_abort", {"saga_id": SAGA_ID, "reason": "r", "to_savepoint": None})
    assert script.asked == [
        ("commit", {"saga_id": SAGA_ID, "by": "agent", "accept_failed": [2, 3]}),
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
