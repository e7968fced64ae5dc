"""An upstream, this server, or both die in the middle of something; what is left is undone, or told."""

from __future__ import annotations

import os
import signal
import sys

import anyio
import psutil
import pytest
from tests.edge.raw_stdio_client import tool_call
from tests.upstream.desk import Desk, eventually, gone, raw

pytestmark = pytest.mark.timeout(180)  # several starts one after the other

BLIND = """
[tools."ledger.add"]
[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${args.id}" }
safe_if_absent = true
idempotent = true
retry = { attempts = 5, first_delay_s = 0.1 }
"""
HANGING_UNDO = BLIND.replace('id = "${args.id}" }', 'id = "${args.id}", mode = "hang_before" }')


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


async def test_an_upstream_that_is_killed_during_a_call_is_undone_and_comes_back(desk: Desk) -> None:
    desk.configure(BLIND)
    async with desk.open() as agent:
        await agent.until_up()
        answers: list[str] = []

        async def add() -> None:
            answers.append((await agent.call("ledger_add", item="a", id=7, mode="hang_after")).facts["state"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            await eventually(lambda: desk.did == ["add a"])
            kill(desk.pids[-1])
        assert answers == ["compensated"]
    assert desk.did == ["add a", "remove 7"]
    assert len(desk.pids) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody knows what a process has left behind")
async def test_a_call_is_not_overtaken_by_its_undo_though_whoever_ends_its_server_is_gone(desk: Desk) -> None:
    """S3.3: the end of the process that we had started is waited for, not that of ours alone."""
    desk.configure(BLIND)
    async with raw(desk) as client:
        await client.send(tool_call(1, "ledger_add", item="a", id=7, mode="hang_before"))
        await eventually(lambda: desk.called("add") == 1)
        between = psutil.Process(desk.pids[-1]).parent()
        assert between is not None
        between.kill()
        kill(client.process.pid)
    async with desk.open() as agent:
        await agent.until_up()
        (saga,) = (await agent.call("saga_status")).value["structuredContent"]["sagas"]
        with anyio.move_on_after(2):  # long enough for an undo that does not wait
            await eventually(lambda: desk.called("remove") > 0)
        desk.switch("go")
        await eventually(lambda: "add a" in desk.did)
        await agent.until(saga["saga_id"], "compensated")
    assert desk.did == ["add a", "remove 7"]


async def test_an_upstream_that_is_killed_during_an_undo_is_asked_again(desk: Desk) -> None:
    desk.configure(HANGING_UNDO)
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=7)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: agent.call("saga_abort", saga_id=added.facts["id"]))
            await eventually(lambda: desk.called("remove") == 1)
            desk.switch("go")
            kill(desk.pids[-1])
        await agent.until(added.facts["id"], "compensated")
    assert desk.did[-1] == "remove 7"


async def test_an_undo_of_unknown_outcome_waits_for_a_person_where_it_is_not_idempotent(desk: Desk) -> None:
    undo = 'undo = { tool = "ledger.remove", args = { id = "${args.id}", mode = "die_before" } }'
    desk.configure(f'[tools."ledger.add"]\n{undo}\n')
    async with desk.open() as agent:
        await agent.until_up()
        added = await agent.call("ledger_add", item="a", id=7)
        await agent.call("saga_abort", saga_id=added.facts["id"])
        await agent.until(added.facts["id"], "needs_attention")
    assert desk.called("remove") == 1


@pytest.mark.parametrize("also_upstream", [False, True], ids=["server", "server and upstream"])
async def test_a_killed_server_takes_its_upstream_along_and_the_next_one_undoes(
    desk: Desk,
    also_upstream: bool,  # noqa: FBT001 - a case
) -> None:
    desk.configure(BLIND)
    async with raw(desk) as client:
        await client.send(tool_call(1, "ledger_add", item="a", id=7, mode="hang_after"))
        await eventually(lambda: desk.did == ["add a"])
        if also_upstream:
            os.kill(desk.pids[-1], signal.SIGSTOP)
        kill(client.process.pid)
        await eventually(lambda: gone(desk.pids[0]))
    async with raw(desk):
        await eventually(lambda: desk.did == ["add a", "remove 7"])


@pytest.mark.slow
async def test_a_server_that_is_killed_during_an_undo_goes_on_with_it(desk: Desk) -> None:
    desk.configure(HANGING_UNDO)
    async with raw(desk) as client:
        added = await client.call("ledger_add", item="a", id=7)
        await client.send(tool_call(2, "saga_abort", saga_id=added["result"]["_meta"]["saga"]["id"]))
        await eventually(lambda: desk.called("remove") == 1)
        kill(client.process.pid)
        await eventually(lambda: gone(desk.pids[0]))
    desk.switch("go")
    async with raw(desk):
        await eventually(lambda: desk.did == ["add a", "remove 7"])


async def test_nothing_that_an_upstream_started_outlives_us(desk: Desk) -> None:
    """`npx` and `uvx` start the server as a child; a signal to them alone would leave it behind."""
    wrapped = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    desk.config.write_text(
        desk.config.read_text(encoding="utf-8").replace("args = [", f'args = ["-c", "{wrapped}", "{desk.python}", ', 1),
        encoding="utf-8",
    )
    async with raw(desk) as client:
        below = psutil.Process(client.process.pid).children(recursive=True)
        assert desk.pids[-1] in {child.pid for child in below}
        kill(client.process.pid)
        await eventually(lambda: all(gone(child.pid) for child in below))


async def test_an_orderly_end_leaves_nothing_behind(desk: Desk) -> None:
    async with raw(desk) as client:
        below = psutil.Process(client.process.pid).children(recursive=True)
        assert below
        await client.stdin.aclose()
        with anyio.fail_after(15):
            await client.process.wait()
        await eventually(lambda: all(gone(child.pid) for child in below))


BY_KEY = """
[tools."ledger.add"]
key_arg = "item"
[tools."ledger.add".undo]
tool = "ledger.remove"
read = { tool = "ledger.look" }
args = { id = "${read.result.entries.filter(entry, entry.item == step.key)[0].id}" }
safe_if_absent = true
idempotent = true
retry = { attempts = 5, first_delay_s = 0.1 }
"""


@pytest.mark.case(20)
async def test_what_a_lost_call_made_is_found_by_the_key_that_was_passed_with_it(desk: Desk) -> None:
    """Its answer, and with it the id, never came; the entry of somebody else stands."""
    desk.configure(BY_KEY)
    async with desk.open() as agent:
        await agent.until_up()
        other = await agent.call("ledger_add", id=7)
        await agent.call("saga_commit", saga_id=other.facts["id"])
        lost = await agent.call("ledger_add", id=9, mode="die_after")
        assert lost.facts["code"] in {"outcome_unknown", "step_failed"}
        await agent.until(lost.facts["id"], "compensated")
    keys = [line["item"] for line in desk.lines if line["do"] == "add"]
    assert len(set(keys)) == 2, "each call has a key of its own"
    assert [(line["do"], line["id"]) for line in desk.lines if line["do"] in {"add", "remove"}] == [
        ("add", 7),
        ("add", 9),
        ("remove", 9),
    ]
