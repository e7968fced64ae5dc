"""Undos over HTTP whose answer is lost: the server may go on with them, so nothing is sent again while it does."""

from __future__ import annotations

import os
import signal

import pytest
from tests.edge.raw_stdio_client import tool_call
from tests.upstream.desk import Desk, eventually, raw
from tests.upstream.test_http import ledger, point
from tests.upstream.wire import wired

PROBED = """
[tools."ledger.add"]
settle_s = 0.2
[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${result.id}", mode = "hang_before" }
timeout_s = 30
retry = { attempts = 3, first_delay_s = 0.1, max_delay_s = 0.2 }
probe = { tool = "ledger.look", landed = "${!now.result.entries.exists(entry, entry.id == 5)}" }
"""
SOON = 'name = "desk"\nreply_within_s = 0.5'


async def asked_often(desk: Desk) -> None:
    """Wait until the probe has said "not undone" more than once after any `settle_s` from now."""
    asked = desk.called("look")
    await eventually(lambda: desk.called("look") >= asked + 4)


def point_soon(desk: Desk, port: int, tools: str = PROBED) -> None:
    point(desk, port, tools)
    desk.config.write_text(desk.config.read_text(encoding="utf-8").replace('name = "desk"', SOON), encoding="utf-8")


@pytest.mark.slow
async def test_an_undo_whose_connection_broke_is_probed_and_not_sent_again_while_it_may_be_under_way(
    desk: Desk,
) -> None:
    async with ledger(desk) as port, wired(port) as wire:
        point_soon(desk, wire.port)
        async with desk.open() as agent:
            await agent.until_up()
            added = await agent.call("ledger_add", item="a", id=5)
            await agent.call("saga_abort", saga_id=added.facts["id"])
            await eventually(lambda: desk.called("remove") == 1)
            wire.cut()
            await asked_often(desk)
            assert desk.called("remove") == 1
            desk.switch("go")
            await agent.until(added.facts["id"], "compensated")
    assert desk.did == ["add a", "remove 5"]
    assert desk.called("remove") == 1


@pytest.mark.slow
async def test_whoever_takes_over_a_lost_undo_does_not_send_it_again_while_it_may_be_under_way(desk: Desk) -> None:
    async with ledger(desk) as port:
        point_soon(desk, port)
        async with raw(desk) as client:
            added = await client.call("ledger_add", item="a", id=5)
            saga_id = added["result"]["_meta"]["saga"]["id"]
            await client.send(tool_call(77, "saga_abort", saga_id=saga_id))
            await eventually(lambda: desk.called("remove") == 1)
            os.kill(client.process.pid, signal.SIGKILL)
        async with desk.open() as agent:
            await agent.until_up()
            await asked_often(desk)
            assert desk.called("remove") == 1
            desk.switch("go")
            await agent.until(saga_id, "compensated")
    assert desk.did == ["add a", "remove 5"]
    assert desk.called("remove") == 1


@pytest.mark.slow
async def test_a_lost_undo_that_was_not_done_by_its_hard_deadline_is_sent_again(desk: Desk) -> None:
    async with ledger(desk) as port:
        point_soon(desk, port, PROBED.replace("timeout_s = 30", "timeout_s = 0.5"))
        async with desk.open() as agent:
            await agent.until_up()
            added = await agent.call("ledger_add", item="a", id=5)
            await agent.call("saga_abort", saga_id=added.facts["id"])
            await eventually(lambda: desk.called("remove") == 1)
            os.kill(desk.pids[-1], signal.SIGKILL)
            desk.switch("go")
            async with ledger(desk, port):
                await agent.until(added.facts["id"], "compensated")
    assert desk.did == ["add a", "remove 5"]
    assert desk.called("remove") == 2
