"""An upstream that does not come up, or is not what it was, costs nobody but itself."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from typing import cast

import anyio
import pytest
import structlog
from tests.upstream.desk import BOUND_S, LEDGER, PAIRED, Agent, Desk, Leaping, eventually, undo_of

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


LOOKING = """guard = { tool = "ledger.look",
  as_left = "${now.result.entries.exists(e, e.id == 7)}", as_before = "${!now.result.entries.exists(e, e.id == 7)}" }"""
READING = 'read = { tool = "ledger.look", args = {} }'


@pytest.mark.slow
@pytest.mark.case(91)
@pytest.mark.parametrize(("guard", "undo"), [("", ""), (LOOKING, ""), ("", READING)], ids=["plain", "guarded", "reads"])
async def test_an_undo_waits_for_its_upstream_without_using_up_its_attempts(desk: Desk, guard: str, undo: str) -> None:
    add = PATIENT.replace('[tools."ledger.add"]\n', f'[tools."ledger.add"]\n{_one_line(guard)}\n')
    desk.configure(f"{add}{undo}\n", saga="reply_within_s = 0.2")
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


SLOW = """
[tools."ledger.add"]
[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${result.id}" }
retry = { attempts = 2, first_delay_s = 3600, max_delay_s = 3600 }
"""
GUARDED = (
    SLOW
    + """
[tools."ledger.add".guard]
tool = "ledger.look"
as_left = "${size(now.result.entries) == 1}"
as_before = "${size(now.result.entries) == 0}"
"""
)


async def stranded(desk: Desk, agent: Agent) -> str:
    """Have an undo meet an upstream that is down; the saga's id."""
    await agent.until_up()
    added = await agent.call("ledger_add", item="a", id=7)
    saga_id = cast("str", added.facts["id"])
    desk.switch("down")
    os.kill(desk.pids[-1], signal.SIGKILL)
    await eventually(lambda: len(desk.pids) >= 3)
    await agent.call("saga_abort", saga_id=saga_id)
    with anyio.fail_after(BOUND_S):
        while "waits for upstream ledger, not reached since 2" not in await undo_of(agent, saga_id):  # noqa: ASYNC110 - see `until`
            await anyio.sleep(0.05)
    return saga_id


@pytest.mark.slow
@pytest.mark.case(91)
@pytest.mark.parametrize("tools", [SLOW, GUARDED], ids=["plain", "guarded"])
async def test_an_undo_runs_as_soon_as_its_upstream_is_up_again(desk: Desk, tools: str) -> None:
    """Its own next try would be up to an hour away."""
    desk.configure(tools, saga="reply_within_s = 0.2")
    async with desk.serve() as agent:
        saga_id = await stranded(desk, agent)
        assert desk.called("remove") == 0
        desk.switch("down", on=False)
        await agent.until(saga_id, "compensated")
    assert desk.did == ["add a", "remove 7"]


BESIDE = """
[upstreams.shelf]
command = {python}
args = [{server}]
env = {{ LEDGER = "shelf.jsonl" }}
read_only = ["look"]
"""
ASKS_ANOTHER = {
    "guard": """
[tools."ledger.add".guard]
tool = "shelf.look"
as_left = "${size(now.result.entries) == 0}"
""",
    "read": """
[tools."ledger.add".undo.read]
tool = "shelf.look"
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("role", ASKS_ANOTHER)
async def test_an_undo_waits_for_another_upstream_that_it_asks_and_runs_as_soon_as_that_is_up(
    desk: Desk, role: str
) -> None:
    beside = BESIDE.format(python=json.dumps(sys.executable), server=json.dumps(str(LEDGER)))
    desk.configure(beside + SLOW + ASKS_ANOTHER[role], saga="reply_within_s = 0.2")
    shelf = desk.folder / "shelf.jsonl"
    async with desk.serve() as agent:
        await agent.until_up()
        await agent.until_up("shelf_look")
        added = await agent.call("ledger_add", item="a", id=7)
        saga_id = cast("str", added.facts["id"])
        shelf.with_suffix(".down").touch()
        os.kill(json.loads(shelf.read_text(encoding="utf-8").splitlines()[0])["pid"], signal.SIGKILL)
        await eventually(lambda: shelf.read_text(encoding="utf-8").count("started") >= 3)
        await agent.call("saga_abort", saga_id=saga_id)
        with anyio.fail_after(BOUND_S):
            while "waits for upstream shelf, not reached since 2" not in await undo_of(agent, saga_id):  # noqa: ASYNC110 - see `until`
                await anyio.sleep(0.05)
        assert desk.called("remove") == 0
        shelf.with_suffix(".down").unlink()
        await agent.until(saga_id, "compensated")
    assert desk.did == ["add a", "remove 7"]


@pytest.mark.slow
async def test_whoever_looks_is_told_what_an_undo_waits_for(desk: Desk) -> None:
    desk.configure(SLOW, saga="reply_within_s = 0.2")
    async with desk.serve() as agent:
        saga_id = await stranded(desk, agent)
        status = (await agent.call("saga_status", saga_id=saga_id)).value["structuredContent"]
        said = {
            command: (await desk.run(*command.split()))[1]
            for command in ("list", "attention", "doctor", f"show {saga_id}")
        }
        _, listed = await desk.run("attention", "--json")
    assert status["state"] == "compensating"
    assert "the undo of step 1 (ledger.add) waits for upstream ledger" in status["next"][0]
    for text in said.values():
        assert re.search(r"waits for upstream ledger, not reached since 2[^,]*Z, tried again by 2[^,]*Z", text)
    (waits,) = json.loads(listed)["waits_for_upstreams"]
    assert (waits["item"], waits["upstream"]) == (f"{saga_id}.1", "ledger")


@pytest.mark.slow
async def test_an_upstream_that_stays_down_for_a_day_makes_its_undo_a_dead_letter(desk: Desk) -> None:
    desk.configure(SLOW, saga="reply_within_s = 0.2")
    clock = Leaping()
    async with desk.open(clock) as agent:
        saga_id = await stranded(desk, agent)
        assert "waits" in await undo_of(agent, saga_id)
        clock.ahead_s = 25 * 3600
        waiting = await agent.until(saga_id, "needs_attention")
        assert [item["kind"] for item in waiting["items"]] == ["dead_letter"]
    assert desk.called("remove") == 0


@pytest.mark.slow
@pytest.mark.parametrize("role", ["guard", "read"])
async def test_an_undo_whose_upstream_dies_of_being_looked_at_is_for_a_person_after_a_day(
    desk: Desk, role: str
) -> None:
    """It is up each time an attempt begins, and gone before anything is sent."""
    tools = GUARDED if role == "guard" else f'{SLOW}read = {{ tool = "ledger.look" }}\n'
    desk.configure(tools, saga="reply_within_s = 0.2")
    clock = Leaping()
    async with desk.open(clock) as agent:
        await agent.until_up()
        saga_id = (await agent.call("ledger_add", item="a", id=7)).facts["id"]
        desk.switch("fragile")
        await agent.call("saga_abort", saga_id=saga_id)
        with anyio.fail_after(BOUND_S):
            while "waits for upstream ledger" not in await undo_of(agent, saga_id):  # noqa: ASYNC110 - see `until`
                await anyio.sleep(0.05)
        clock.ahead_s = 25 * 3600
        waiting = await agent.until(saga_id, "needs_attention")
        assert [item["kind"] for item in waiting["items"]] == ["dead_letter"]
    assert desk.called("remove") == 0


def _one_line(table: str) -> str:
    return " ".join(table.split())


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_command_without_a_server_connects_what_it_needs_to_undo(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=7)
    code, said = await desk.run("abort", added.facts["id"], "--yes")
    assert code == 0, said
    assert "compensated" in said
    assert desk.did == ["add a", "remove 7"]


@pytest.mark.slow
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


async def test_a_call_is_no_step_while_its_server_is_still_starting(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
    desk.configure(saga="reply_within_s = 1.0")
    desk.switch("slow")
    async with desk.open() as agent:
        note = await agent.call("note", text="a day's work")
        refused = await agent.call("ledger_add", item="a", saga_id=note.facts["id"])
        assert refused.facts["code"] == "upstream_down"
        assert (await agent.call("saga_status", saga_id=note.facts["id"])).value["structuredContent"][
            "state"
        ] == "active"
        desk.switch("slow", on=False)
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", saga_id=note.facts["id"])
        assert added.facts["state"] == "active"
    assert desk.notes == ["note a day's work"]
    assert desk.did == ["add a"]


CAPTURED = """
[tools."ledger.add"]
capture = { tool = "other.look" }
undo = { tool = "ledger.remove", args = { id = "${result.id}" } }
"""


async def test_a_call_is_no_step_while_the_server_that_its_capture_asks_is_down(desk: Desk) -> None:
    ledger = f"""
[upstreams.other]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(LEDGER))}]
env = {{ LEDGER = "other.jsonl" }}
read_only = ["look"]
"""
    desk.configure(CAPTURED, more=ledger)
    (desk.folder / "other.down").touch()
    async with desk.open() as agent:
        await agent.until_up()
        refused = await agent.call("ledger_add", item="a")
        assert refused.facts["code"] == "upstream_down"
    assert desk.called("add") == 0


@pytest.mark.slow
async def test_an_allowed_call_waits_for_a_server_that_is_slow_to_start_and_nothing_is_undone(desk: Desk) -> None:
    desk.configure(PAIRED.rstrip() + "\napproval = true\n", saga="reply_within_s = 0.2")
    async with desk.open() as agent:
        await agent.until_up()
        note = await agent.call("note", text="a day's work")
        saga_id = note.facts["id"]
        await agent.call("ledger_add", item="a", saga_id=saga_id)
    desk.switch("slow")
    async with desk.open() as agent:
        with structlog.testing.capture_logs() as said:
            code, told = await desk.run("approve", f"{saga_id}.2", "--yes")
            assert code == 0, told
            await eventually(lambda: any(each["event"] == "allowed_call_waits" for each in said))
        desk.switch("slow", on=False)
        await eventually(lambda: desk.did == ["add a"])
        await agent.until(saga_id, "active")
    assert desk.notes == ["note a day's work"]


@pytest.mark.slow
async def test_show_says_that_what_is_there_now_cannot_be_read_where_the_server_is_down(desk: Desk) -> None:
    tools = PAIRED + 'capture = { tool = "ledger.look" }\n'
    desk.configure(tools)
    async with desk.serve() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a")
    code, said = await desk.run("show", added.facts["id"], "--diff", "--now")
    assert code == 0, said
    assert "+++ step 1 ledger.add: now" in said
    desk.switch("down")
    code, said = await desk.run("show", added.facts["id"], "--diff", "--now")
    assert code == 0, said
    assert "step 1 ledger.add: what is there now cannot be read: " in said
    assert "--- step 1 ledger.add: captured before" in said
