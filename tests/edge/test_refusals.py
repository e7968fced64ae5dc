"""Refusals and calls without an answer: a stable code, and one sentence on what to do next (DESIGN.md 5.3)."""

from __future__ import annotations

import pytest
from mcp.client import Client
from structlog.testing import capture_logs
from tests.edge.scripted import (
    OBJECT,
    SAGA_ID,
    Script,
    call,
    intended,
    saga_of,
    scripted,
    told_tool,
)
from tests.edge.served import ERAS, facts_of, text_of

from saga_mcp.domain.errors import (
    CommitRefused,
    LogConflict,
    LogUnavailable,
    Refused,
    SagaAborted,
    SagaClosed,
    SagaNotFound,
    SagaPruned,
    SagaQuarantined,
    StepUnsettled,
)
from saga_mcp.domain.events import (
    StepFellInDoubt,
)
from saga_mcp.engine.port import CallReply, SagaIdMissing, SagaIdMistyped
from saga_mcp.tools.unsent import InvalidArguments


@pytest.mark.case(90)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("error", "code", "first"),
    [
        (SagaNotFound("sg-x"), "saga_not_found", 'No saga "sg-x" of yours. Nothing was sent.'),
        (SagaPruned("sg-x", "ops", "committed: 1 done", "2026-01-01"), "saga_pruned", "Saga sg-x ended (committed"),
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
    result = await call(Script(error), era)
    assert result.is_error is True
    assert text_of(result).startswith(first)
    assert result.structured_content["error"] == {"code": code, "message": text_of(result)}
    assert facts_of(result)["code"] == code


@pytest.mark.parametrize("era", ERAS)
async def test_a_refusal_has_no_structured_part_where_a_client_could_apply_an_output_schema_to_it(era: str) -> None:
    """The TypeScript SDK 1.x does, and throws instead of showing what is refused and why."""
    governed = await call(Script(SagaIdMissing()), era, told_tool(output=OBJECT))
    async with Client(scripted(Script()), mode=era) as client:
        control = await client.call_tool("saga_begin", {"purposes": "a trip"})
    for result, code in ((governed, "saga_id_missing"), (control, "invalid_arguments")):
        assert result.is_error is True
        assert result.structured_content is None
        assert facts_of(result)["code"] == code
        assert text_of(result).startswith("Nothing was sent")


@pytest.mark.parametrize("era", ERAS)
async def test_a_quarantine_that_a_call_meets_never_says_that_nothing_was_sent(era: str) -> None:
    """It may be met when the outcome is to be stored; a control tool sends nothing."""
    error = SagaQuarantined("sg-x", "unknown event")
    async with Client(scripted(Script(error, state=error), told_tool()), mode=era) as client:
        called = await client.call_tool("act", {})
        looked = await client.call_tool("saga_status", {"saga_id": SAGA_ID})
    plain = "Saga sg-x is quarantined: unknown event. Tell the user; `saga-mcp show sg-x`."
    assert text_of(called) == f"{plain} Nothing was sent."
    assert text_of(looked) == plain
    assert facts_of(called)["code"] == facts_of(looked)["code"] == "saga_quarantined"


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_an_error_the_model_can_read(era: str) -> None:
    async with Client(scripted(Script(), told_tool("reserve_seat")), mode=era) as client:
        result = await client.call_tool("reserve_seats", {})
    assert result.is_error is True
    assert 'Did you mean "reserve_seat"?' in text_of(result)


@pytest.mark.case(90, 106)
@pytest.mark.parametrize("era", ERAS)
async def test_a_bug_of_ours_gives_a_reference_whose_details_only_the_log_has(era: str) -> None:
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
        ("another", "Step 1 act has no answer (another). Do not call it again; use saga_status."),
    ],
)
async def test_a_call_without_an_answer_is_an_error_that_tells_not_to_repeat_it(
    era: str, code: str, first: str
) -> None:
    """SEMANTICS.md S11.1: as a success it would break the output schema, and strict clients would throw."""
    saga = saga_of(intended(1), StepFellInDoubt(step=1, reason="timeout", running=True, parts=()))
    reply = CallReply(code=code, saga_id=SAGA_ID, saga=saga, step=1)
    result = await call(Script(reply), era)
    assert result.is_error is True
    assert text_of(result).startswith(first)
    assert result.structured_content["error"]["code"] == facts_of(result)["code"] == code
    assert result.structured_content["saga"]["id"] == SAGA_ID


async def test_a_call_whose_intent_is_not_stored_yet_still_names_its_saga() -> None:
    result = await call(Script(CallReply(code="still_running", saga_id=SAGA_ID)))
    assert facts_of(result) == {"id": SAGA_ID, "code": "still_running"}


async def test_a_long_refusal_is_cut_but_still_says_what_to_do() -> None:
    reasons = tuple(f"step {number} shop.act is unknown" for number in range(1, 500))
    result = await call(Script(CommitRefused(reasons)))
    assert len(text_of(result)) < 2_200
    assert text_of(result).endswith("Use saga_status, then saga_abort or wait for a person.")


async def test_refusal_codes_are_those_of_the_contract() -> None:
    """DESIGN.md 5.3 lists them; programs tell refusals by them."""
    known = {
        "saga_not_found", "saga_closed", "saga_aborted", "savepoint_not_found", "step_unsettled", "commit_refused",
        "pivot_passed", "kind_refused", "key_reused", "repeat_refused", "item_refused", "capture_failed",
        "resource_held", "approval_rejected", "tool_paused", "revert_refused", "saga_not_yours", "limit_reached",
        "driver_unavailable",
    }  # fmt: skip
    assert {refusal.code for refusal in Refused.__subclasses__()} == known
