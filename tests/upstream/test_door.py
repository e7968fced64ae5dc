"""What a door or a gateway says in place of an upstream over HTTP is not that upstream's answer."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.upstream.desk import Desk, Leaping, Result, eventually, undo_of
from tests.upstream.test_http import BLIND, ledger, point

DOOR = Path(__file__).with_name("door_server.py")


@pytest.mark.slow
@pytest.mark.parametrize("status", [202, 500, 502, 504])
async def test_a_call_that_a_gateway_answers_is_in_doubt_and_not_overtaken_by_its_undo(desk: Desk, status: int) -> None:
    async with ledger(desk, program=DOOR) as port:
        point(desk, port, BLIND)
        async with desk.open() as agent:
            await agent.until_up()
            answer = await agent.call("ledger_add", item=str(status), id=7, mode="hang_before")
            assert answer.facts["code"] == "outcome_unknown"
            waiting = await agent.until(answer.facts["id"], "needs_attention")
            assert [item["kind"] for item in waiting["items"]] == ["in_doubt"]
            desk.switch("go")
            await eventually(lambda: bool(desk.did))
    assert desk.did == [f"add {status}"]


async def test_no_code_on_the_wire_says_that_nothing_was_sent(desk: Desk) -> None:
    async with ledger(desk, program=DOOR) as port:
        point(desk, port)
        async with desk.open() as agent:
            await agent.until_up()
            answer = await agent.call("ledger_add", item="own_code", id=7)
            await agent.until(answer.facts["id"], "compensated")
    assert desk.did == ["add own_code", "remove 7"]


@pytest.mark.parametrize(("status", "advice"), [(401, "renew the token"), (429, ""), (403, "")])
@pytest.mark.parametrize("retry", ["", "retry = { attempts = 2, first_delay_s = 0.01 }"])
async def test_a_refusal_at_the_door_sends_nothing_whatever_its_body_and_costs_no_saga(
    desk: Desk, status: int, advice: str, retry: str
) -> None:
    async with ledger(desk, program=DOOR) as port:
        point(desk, port, BLIND.replace("timeout_s = 1", f"timeout_s = 1\n{retry}"))
        async with desk.open() as agent:
            await agent.until_up()
            saga_id = (await agent.call("note", text="a")).facts["id"]
            answer = await agent.call("ledger_add", item=str(status), id=7, saga_id=saga_id)
            done = await agent.call("saga_commit", saga_id=saga_id, accept_failed=[2])
            assert done.facts["state"] == "committed"
    assert desk.notes == ["note a"]
    assert answer.facts["code"] == "upstream_down"
    assert answer.facts["state"] == "active"
    assert answer.text.startswith("Nothing was sent")
    assert f"HTTP {status}" in answer.text
    assert "ledger: " in answer.text
    assert advice in answer.text
    assert (desk.did, desk.called("add"), desk.called("remove")) == ([], 0, 0)


@pytest.mark.case(101)
@pytest.mark.parametrize(("other", "sessions"), [("429", 1), ("lost", 2)])
async def test_what_one_call_meets_at_the_door_does_not_touch_the_others(desk: Desk, other: str, sessions: int) -> None:
    async with ledger(desk, program=DOOR) as port:
        point(desk, port, BLIND.replace("timeout_s = 1", "timeout_s = 30").replace("deadline_s = 3", "deadline_s = 99"))
        async with desk.open() as agent:
            await agent.until_up()
            answers: list[Result] = []

            async def slow() -> None:
                answers.append(await agent.call("ledger_add", item="slow", id=8, mode="hang_before"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(slow)
                await eventually(lambda: desk.called("add") == 1)
                await agent.call("ledger_add", item=other, id=9)
                await eventually(lambda: desk.called("initialize") == sessions)
                await agent.until_up()
                assert desk.called("initialize") == sessions
                assert not answers
                desk.switch("go")
    assert not answers[0].is_error, answers[0].text
    assert desk.did == ["add slow"]


async def test_an_answer_that_cannot_be_read_is_no_success(desk: Desk) -> None:
    async with ledger(desk, program=DOOR) as port:
        point(desk, port)
        async with desk.open() as agent:
            await agent.until_up()
            answer = await agent.call("ledger_add", item="malformed", id=7)
            assert answer.is_error
            assert "cannot be read (content is no list)" in answer.text
            await agent.until(answer.facts["id"], "compensated")
    assert desk.did == ["add malformed", "remove 7"]


RETRIED = """
[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${result.id}" }
retry = { attempts = 2, first_delay_s = 0.1, max_delay_s = 0.2 }
"""


async def test_an_undo_that_is_not_let_in_waits_says_why_and_runs_when_it_is(desk: Desk) -> None:
    """S6.5: an upstream that cannot be reached costs time, not attempts; so does one that is there and shut."""
    async with ledger(desk, program=DOOR) as port:
        point(desk, port, RETRIED, saga="reply_within_s = 0.2")
        async with desk.open() as agent:
            await agent.until_up()
            saga_id = (await agent.call("ledger_add", item="a", id=7)).facts["id"]
            desk.switch("shut")
            await agent.call("saga_abort", saga_id=saga_id)
            await eventually(lambda: _turned_away(desk) > 3)
            assert "waits for upstream ledger, not reached since 2" in await undo_of(agent, saga_id)
            _, said = await desk.run("attention")
            assert "HTTP 401: renew the token" in said
            desk.switch("shut", on=False)
            await agent.until(saga_id, "compensated")
    assert desk.did == ["add a", "remove 7"]


async def test_an_undo_that_is_not_let_in_for_a_day_is_for_a_person(desk: Desk) -> None:
    clock = Leaping()
    async with ledger(desk, program=DOOR) as port:
        point(desk, port, RETRIED, saga="reply_within_s = 0.2")
        async with desk.open(clock) as agent:
            await agent.until_up()
            saga_id = (await agent.call("ledger_add", item="a", id=7)).facts["id"]
            desk.switch("shut")
            await agent.call("saga_abort", saga_id=saga_id)
            await eventually(lambda: _turned_away(desk) > 1)
            clock.ahead_s = 25 * 3600
            waiting = await agent.until(saga_id, "needs_attention")
            assert [item["kind"] for item in waiting["items"]] == ["dead_letter"]
    assert desk.did == ["add a"]


def _turned_away(desk: Desk) -> int:
    return sum(line["do"] == "turned away" for line in desk.lines)
