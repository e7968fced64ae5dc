"""What an upstream's error is taken for, over the real command: an answer, passed on as it is."""

from __future__ import annotations

import pytest
from tests.upstream.desk import Desk, Leaping

from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.upstream.schema import InputSchema

GONE = """
[tools."ledger.add"]
[tools."ledger.add".undo]
tool = "ledger.remove"
args = {{ id = "${{result.id}}", mode = "fail_before" }}
retry = {{ attempts = 1 }}
{}
"""
DONE_WHEN = "done_when = \"${now.text.startsWith('refused')}\""


@pytest.mark.case(12)
async def test_an_error_that_was_answered_is_no_reason_to_connect_or_to_call_again(desk: Desk) -> None:
    async with desk.serve() as agent:
        await agent.until_up()
        answer = await agent.call("ledger_add", item="a", mode="fail_before")
        await agent.call("ledger_look")
    assert answer.text.startswith("refused: nothing was done")
    assert (desk.called("add"), len(desk.pids)) == (1, 1)


@pytest.mark.parametrize("value", ["cut \ud83d", float("nan"), float("inf")])
def test_arguments_that_json_cannot_hold_fit_no_schema(value: JsonValue) -> None:
    assert InputSchema({}).problems({"a": [value]})
    assert not InputSchema({}).problems({"a": ["whole \U0001f600", 1.5]})


async def test_what_no_request_can_hold_is_refused_and_is_no_step(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        answer = await agent.call("ledger_add", details={"a": ["cut \ud83d"]}, item="a")
        assert answer.facts["code"] == "invalid_arguments"
        assert answer.text.startswith("Nothing was sent: arguments: ")
        assert not (await agent.call("ledger_add", item="b")).is_error
    assert desk.did == ["add b"]


async def test_an_undo_that_no_request_can_hold_is_for_a_person_at_once(desk: Desk) -> None:
    desk.configure('[tools."ledger.say"]\nundo = { tool = "ledger.say", args = { text = "${result}" } }\n')
    async with desk.open() as agent:
        await agent.until_up()
        said = await agent.call("ledger_say", text=r'"cut \ud83d"')
        await agent.call("saga_abort", saga_id=said.facts["id"])
        status = await agent.until(said.facts["id"], "needs_attention")
    assert [item["kind"] for item in status["items"]] == ["dead_letter"]
    assert desk.called("say") == 1


@pytest.mark.case(88)
async def test_an_error_keeps_its_flag_its_content_and_its_meta(desk: Desk) -> None:
    desk.configure('[tools."ledger.say"]\nundo = { leave = "the line" }\n')
    async with desk.serve() as agent:
        await agent.until_up()
        answer = await agent.call("ledger_say", text="a", mode="fail_richly")
    first, second, _ours = answer.value["content"]
    assert (answer.is_error, answer.facts["code"]) == (True, "step_failed")
    assert (first["text"], second["data"], second["mimeType"]) == ("too many", "AA==", "image/png")
    assert answer.value["structuredContent"]["code"] == 429
    assert answer.value["_meta"]["example.org/retry"] == 30


@pytest.mark.case(66)
@pytest.mark.parametrize(
    ("done_when", "state", "undone"), [(DONE_WHEN, "compensated", True), ("", "needs_attention", False)]
)
async def test_what_was_gone_already_is_undone_where_its_author_says_so(
    desk: Desk, done_when: str, state: str, *, undone: bool
) -> None:
    desk.configure(GONE.format(done_when))
    async with desk.serve() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a")
        await agent.call("saga_abort", saga_id=added.facts["id"])
        status = await agent.until(added.facts["id"], state)
    assert [item["kind"] for item in status.get("items", [])] == ([] if undone else ["dead_letter"])
    assert desk.called("remove") == 1


FORWARD = """
[tools."ledger.say"]
kind = "pivot"
[tools."ledger.add"]
kind = "retriable"
idempotent = true
"""


async def test_what_has_to_succeed_is_sent_again_as_an_undo_is_where_nobody_says_how_often(desk: Desk) -> None:
    """S7.2: after the point of no return there is only forward."""
    desk.configure(FORWARD)
    async with desk.open(Leaping()) as agent:
        await agent.until_up()
        saga_id = (await agent.call("ledger_say", text="sent")).facts["id"]
        await agent.call("ledger_add", item="a", id=7, mode="fail_before", saga_id=saga_id)
        waiting = await agent.until(saga_id, "needs_attention")
        assert [item["kind"] for item in waiting["items"]] == ["retriable_exhausted"]
    assert desk.called("add") == 8


TWICE = """
[tools."ledger.add"]
key_arg = "item"
idempotent = {idempotent}
retry = {{ attempts = 3, first_delay_s = 0.1 }}
undo = {{ tool = "ledger.remove", args = {{ id = "${{args.id}}" }}, safe_if_absent = true }}
"""


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_call_that_died_with_its_server_is_sent_again_only_where_that_is_harmless(
    desk: Desk,
    idempotent: bool,  # noqa: FBT001 - a case
) -> None:
    """S3.2: an attempt of unknown outcome, with the same key."""
    desk.configure(TWICE.format(idempotent=str(idempotent).lower()))
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", id=7, mode="die_once")
        assert added.facts["state"] == ("active" if idempotent else "compensated")
    keys = [line["item"] for line in desk.lines if line["do"] == "add"]
    assert (len(keys), len(set(keys))) == (2 if idempotent else 1, 1)
