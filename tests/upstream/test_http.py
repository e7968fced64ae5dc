"""An upstream over HTTP: its process is not ours, so that nothing about it is proved."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.edge.raw_stdio_client import tool_call
from tests.upstream.desk import BOUND_S, LEDGER, Desk, eventually, raw

BLIND = """
[tools."ledger.add"]
timeout_s = 1
undo = { tool = "ledger.remove", args = { id = "${args.id}" }, safe_if_absent = true }
"""


@asynccontextmanager
async def ledger(desk: Desk, port: int = 0) -> AsyncGenerator[int]:
    """The ledger at a port, until the block ends."""
    env = {**os.environ, "LEDGER": str(desk.world), "LEDGER_PORT": str(port)}
    process = await anyio.open_process([sys.executable, str(LEDGER)], env=env, stderr=sys.stderr)
    try:
        assert process.stdout is not None
        with anyio.fail_after(BOUND_S):
            said = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 100)
        yield int(said)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await process.aclose()


def point(desk: Desk, port: int, tools: str = BLIND) -> None:
    """Let the config name the ledger at that port."""
    desk.configure(tools)
    head, _, rest = desk.config.read_text(encoding="utf-8").partition("[upstreams.ledger]")
    rest = rest[rest.index("read_only") :]
    desk.config.write_text(f'{head}[upstreams.ledger]\nurl = "http://127.0.0.1:{port}/mcp"\n{rest}', encoding="utf-8")


async def test_a_saga_over_http_is_undone(desk: Desk) -> None:
    async with ledger(desk) as port:
        point(desk, port)
        async with desk.open() as agent:
            await agent.until_up()
            added = await agent.call("ledger_add", item="a", id=2**62, size=2_000_000)
            await agent.call("saga_abort", saga_id=added.facts["id"])
    assert desk.did == ["add a", f"remove {2**62}"]


async def test_a_connection_that_breaks_proves_nothing_and_other_calls_go_on(desk: Desk) -> None:
    async with ledger(desk) as port:
        point(desk, port)
        async with desk.open() as agent:
            await agent.until_up()
            refused = await agent.call("ledger_add", item="a", id=7, mode="invalid_params")
            assert refused.facts["state"] == "compensated"
            answers: list[str] = []

            async def add() -> None:
                answers.append((await agent.call("ledger_add", item="b", id=8, mode="hang_after")).facts["code"])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(add)
                await eventually(lambda: desk.did == ["add b"])
                os.kill(desk.pids[-1], signal.SIGKILL)
            assert answers == ["outcome_unknown"]
            down = await agent.call("ledger_add", item="c", id=9)
            assert down.facts["code"] in {"step_failed", "upstream_down"}
            assert down.facts.get("state") != "active"
            async with ledger(desk, port):
                await agent.until_up()
    assert desk.did == ["add b"]


async def test_after_a_kill_of_ours_a_call_over_http_may_still_go_on_and_is_not_undone(desk: Desk) -> None:
    async with ledger(desk) as port:
        point(desk, port)
        async with raw(desk) as client:
            await client.send(tool_call(1, "ledger_add", item="a", id=7, mode="hang_before"))
            await eventually(lambda: desk.called("add") == 1)
            os.kill(client.process.pid, signal.SIGKILL)
        async with desk.open() as agent:
            await agent.until_up()
            (saga,) = (await agent.call("saga_status")).value["structuredContent"]["sagas"]
            await agent.until(saga["saga_id"], "needs_attention")
            desk.switch("go")
            await eventually(lambda: desk.did == ["add a"])
    assert desk.called("remove") == 0
