"""An upstream that does not come up, or is not what it was, costs nobody but itself."""

from __future__ import annotations

import os
import signal

import pytest
from tests.upstream.desk import PAIRED, Desk, eventually

pytestmark = pytest.mark.timeout(180)  # several starts one after the other

PATIENT = """
[tools."ledger.add"]
[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${result.id}" }
retry = { attempts = 1, first_delay_s = 0.1, max_delay_s = 0.2 }
"""


@pytest.mark.case(91)
async def test_a_dead_upstream_delays_nobody_and_its_calls_send_nothing(desk: Desk) -> None:
    desk.switch("down")
    async with desk.serve() as agent:
        note = await agent.call("note", text="a")
        assert not note.is_error
        refused = await agent.call("ledger_add", item="a", saga_id=note.facts["id"])
        assert refused.facts["code"] == "upstream_down"
        assert refused.text.startswith("Nothing was sent: the server behind ledger_add cannot be reached")
        assert "ledger_add" in await agent.tools()
        done = await agent.call("saga_commit", saga_id=note.facts["id"])
        assert done.facts["state"] == "committed"


@pytest.mark.case(91)
async def test_the_tools_of_a_dead_upstream_stay_listed_as_they_were(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        before = await agent.tools()
    desk.switch("down")
    async with desk.open() as agent:
        assert await agent.tools() == before
        await eventually(lambda: len(desk.pids) == 2)


@pytest.mark.case(91)
async def test_an_undo_waits_for_its_upstream_without_using_up_its_attempts(desk: Desk) -> None:
    desk.configure(PATIENT, saga="reply_within_s = 0.2")
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=7)
        saga_id = added.facts["id"]
        desk.switch("down")
        os.kill(desk.pids[-1], signal.SIGKILL)
        await eventually(lambda: len(desk.pids) >= 3)
        await agent.call("saga_abort", saga_id=saga_id)
        started = len(desk.pids)
        await eventually(lambda: len(desk.pids) > started)
        assert desk.called("remove") == 0
        desk.switch("down", on=False)
        await agent.until(saga_id, "compensated")
    assert desk.did == ["add a", "remove 7"]


@pytest.mark.case(96)
async def test_an_undo_that_no_longer_fits_the_tool_is_a_dead_letter_and_nothing_is_sent(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a")
    desk.switch("changed")
    async with desk.open() as agent:
        await agent.until_up()
        await agent.call("saga_abort", saga_id=added.facts["id"])
        await agent.until(added.facts["id"], "needs_attention")
    _, shown = await desk.run("show", f"{added.facts['id']}.1")
    assert "schema changed" in shown
    assert desk.called("remove") == 0


async def test_an_undo_is_not_sent_to_another_place(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a")
    desk.configure(PAIRED, upstream='account = "another"')
    async with desk.open() as agent:
        await agent.until_up()
        await agent.call("saga_abort", saga_id=added.facts["id"])
        await agent.until(added.facts["id"], "needs_attention")
    assert desk.called("remove") == 0


async def test_noise_on_stdout_costs_nothing(desk: Desk) -> None:
    desk.switch("noise")
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", mode="noise")
    assert added.facts["state"] == "active"


async def test_a_command_without_a_server_connects_what_it_needs_to_undo(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=7)
    code, said = await desk.run("abort", added.facts["id"], "--yes")
    assert code == 0, said
    assert "compensated" in said
    assert desk.did == ["add a", "remove 7"]


async def test_doctor_says_how_the_upstreams_are_and_keeps_nothing(desk: Desk) -> None:
    desk.configure(PAIRED + '[tools."ledger.gone"]\nkind = "pivot"\n')
    before = {file.name for file in desk.folder.iterdir()}
    _, said = await desk.run("doctor")
    assert "upstreams.ledger answers: 6 tools" in said
    assert "upstreams.ledger has no tool gone" in said
    desk.switch("down")
    code, said = await desk.run("doctor")
    assert code == 1
    assert "upstreams.ledger does not come up: " in said
    assert {file.name for file in desk.folder.iterdir()} - before <= {"ledger.jsonl", "ledger.down", "__pycache__"}
