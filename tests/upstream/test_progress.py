"""Progress and questions of upstreams, over the real command: the one passes, the other is declined."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from tests.edge.raw_stdio_client import Message
from tests.upstream.desk import BOUND_S, PAIRED, Agent, Desk, eventually, raw

OLD = Path(__file__).with_name("old_server.py")
OLD_TOOLS = f"""
[upstreams.old]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(OLD))}]

[tools."old.work"]
undo = {{ leave = "the work" }}

[tools."old.ask"]
kind = "read_only"
"""
WORKING = """
import asyncio
from saga_tools import Call

@registry.tool(kind="pivot")
async def slow(call: Call) -> str:
    await call.report_progress(1, 2)
    await call.report_progress(2, 2, "there")
    return "done"

@registry.tool(kind="pivot")
def steady(call: Call) -> str:
    asyncio.run(call.report_progress(0.5, message="half"))
    return "done"
"""
REPORTS: list[Message] = [{"progress": 1}, {"progress": 2.5, "total": 2.5, "message": "ü"}, {"progress": 9}]

Told = tuple[float, float | None, str | None]
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


async def tell(agent: Agent, name: str, told: list[Told], **arguments: object) -> None:
    """Call a tool, and keep what is told meanwhile."""

    async def keep(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    with anyio.fail_after(BOUND_S):
        await agent.client.call_tool(name, arguments, progress_callback=keep)


@pytest.mark.slow
@ERAS
async def test_an_upstreams_progress_reaches_the_client_while_it_works(desk: Desk, era: str) -> None:
    told: list[Told] = []
    async with desk.serve(era=era) as agent, anyio.create_task_group() as tasks:
        await agent.until_up()
        tasks.start_soon(lambda: tell(agent, "ledger_add", told, item="a", mode="report"))
        await eventually(lambda: told == [(1, 3, "begun")])
        desk.switch("go")
    assert told == [(1, 3, "begun"), (2.5, None, None)]


@ERAS
async def test_an_upstream_of_the_older_era_is_heard_too(desk: Desk, era: str) -> None:
    desk.configure(PAIRED + OLD_TOOLS)
    told: list[Told] = []
    async with desk.serve(era=era) as agent:
        await agent.until_up("old_ask")
        await tell(agent, "old_work", told, reports=REPORTS)
    assert told == [(1, None, None), (2.5, 2.5, "ü"), (9, None, None)]


@pytest.mark.slow
async def test_it_comes_with_the_clients_own_token_and_never_after_the_reply(desk: Desk) -> None:
    """A call that goes on after its reply tells nobody; one whose client did not ask never did."""
    desk.configure(saga="reply_within_s = 1")
    asked = {"name": "ledger_add", "arguments": {"item": "a", "mode": "report"}, "_meta": {"progressToken": "mine"}}
    async with raw(desk) as client:
        await client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked})
        told, reply = await client.receive(), await client.receive()
        desk.switch("go")
        await eventually(lambda: "add a" in desk.did)
        other = await client.call("ledger_add", 2, item="b", mode="report")
    params = {"progressToken": "mine", "progress": 1, "total": 3, "message": "begun"}
    assert told == {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    assert reply["result"]["_meta"]["saga"]["code"] == "still_running"
    assert other["id"] == 2


@pytest.mark.slow
async def test_a_call_that_joins_a_running_one_is_told_as_well(desk: Desk) -> None:
    first: list[Told] = []
    second: list[Told] = []
    async with desk.serve() as agent, anyio.create_task_group() as tasks:
        await agent.until_up()
        saga_id = await agent.begin()
        arguments = {"item": "a", "mode": "tick", "saga_id": saga_id}
        tasks.start_soon(lambda: tell(agent, "ledger_add", first, **arguments))
        await eventually(lambda: bool(first))
        tasks.start_soon(lambda: tell(agent, "ledger_add", second, **arguments))
        await eventually(lambda: bool(second))
        desk.switch("go")
    assert desk.did == ["add a"]


async def test_a_python_tool_reports_from_a_coroutine_and_from_a_thread(desk: Desk) -> None:
    (desk.folder / "notes.py").write_text((desk.folder / "notes.py").read_text() + WORKING)
    told: list[Told] = []
    async with desk.serve() as agent:
        await tell(agent, "slow", told)
        await tell(agent, "steady", told)
        await agent.call("slow")
    assert told == [(1, 2, None), (2, 2, "there"), (0.5, None, "half")]


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])
async def test_what_an_upstream_asks_of_its_client_is_declined_and_nothing_hangs(desk: Desk, method: str) -> None:
    desk.configure(PAIRED + OLD_TOOLS)
    async with desk.serve() as agent:
        await agent.until_up("old_ask")
        answer = await agent.call("old_ask", method=method)
    said = json.loads(answer.text)
    assert said["code"] == -32601
    assert said["message"] == f"saga-mcp does not pass on what servers ask of their clients ({method})"


async def test_a_server_of_the_modern_era_that_asks_is_told_as_a_failure_that_says_so(desk: Desk) -> None:
    async with desk.serve() as agent:
        await agent.until_up()
        answer = await agent.call("ledger_add", item="a", mode="ask")
    assert answer.facts["code"] == "step_failed"
    assert "asks for input before it does this, which saga-mcp does not pass on" in answer.text
    assert desk.did == []
