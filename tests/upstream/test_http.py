"""An upstream over HTTP: its process is not ours, so that nothing about it is proved."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from mcp.client import Client
from tests.edge.raw_stdio_client import tool_call
from tests.upstream.desk import BOUND_S, LEDGER, Agent, Desk, eventually, gone, raw
from tests.world.running import running

from saga_mcp import app
from saga_mcp.edge.server import build_server

BLIND = """
[tools."ledger.add"]
timeout_s = 1
hard_deadline_s = 3
undo = { tool = "ledger.remove", args = { id = "${args.id}" }, safe_if_absent = true }
"""


PROBED = """
[tools."ledger.add"]
hard_deadline_s = 300
undo = { tool = "ledger.remove", args = { id = "${args.id}" } }
probe = { tool = "ledger.look", landed = "${now.result.entries.exists(entry, entry.id == args.id)}" }
"""


@asynccontextmanager
async def ledger(desk: Desk, port: int = 0, *, program: Path = LEDGER) -> AsyncGenerator[int]:
    """The ledger at a port, until the block ends."""
    path = str(LEDGER.parents[2])
    env = {**os.environ, "LEDGER": str(desk.world), "LEDGER_PORT": str(port), "PYTHONPATH": path}
    async with running(
        [sys.executable, str(program)], desk.world.with_name("ledger.log"), env=env, kills=True
    ) as started:
        yield int(await started.line())


def point(desk: Desk, port: int, tools: str = BLIND, *, saga: str = "") -> None:
    """Let the config name the ledger at that port."""
    desk.configure(tools, saga=saga)
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


async def test_the_proxy_of_the_environment_is_gone_through(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `adopt` and `check` do: behind it there is no other way out."""
    through: list[bytes] = []
    async with ledger(desk) as port, await anyio.create_tcp_listener(local_host="127.0.0.1") as listening:

        async def handle(client: SocketStream) -> None:
            async with client, await anyio.connect_tcp("127.0.0.1", port) as server, anyio.create_task_group() as tasks:

                async def back() -> None:
                    async for chunk in server:
                        await client.send(chunk)
                    tasks.cancel_scope.cancel()

                tasks.start_soon(back)
                async for chunk in client:
                    through.append(chunk)
                    await server.send(chunk.replace(f"http://127.0.0.1:{port}/".encode(), b"/"))
                tasks.cancel_scope.cancel()

        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{listening.extra(SocketAttribute.local_port)}")  # noqa: S610 - of anyio
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        point(desk, port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listening.serve, handle)
            async with desk.open() as agent:
                await agent.until_up()
                assert not (await agent.call("ledger_add", item="a", id=7)).is_error
            tasks.cancel_scope.cancel()
    assert f"POST http://127.0.0.1:{port}/mcp".encode() in b"".join(through)
    assert desk.did == ["add a"]


@pytest.mark.slow
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
            assert down.facts["code"] == "upstream_down"
            assert down.text.startswith("Nothing was sent: the server behind ledger_add cannot be reached")
            async with ledger(desk, port):
                await agent.until_up()
    assert desk.did == ["add b"]


@pytest.mark.slow
async def test_a_server_that_is_not_there_any_more_costs_the_call_and_not_the_saga(desk: Desk) -> None:
    async with ledger(desk) as port:
        point(desk, port)
        async with desk.open() as agent:
            await agent.until_up()
            saga_id = (await agent.call("ledger_add", item="a", id=7)).facts["id"]
            os.kill(desk.pids[-1], signal.SIGKILL)
            await eventually(lambda: gone(desk.pids[-1]))
            # Our side learns of it by this call: an idle connection over HTTP tells nothing.
            down = await agent.call("ledger_add", item="b", id=8, saga_id=saga_id)
            assert (down.facts["code"], down.facts["state"]) == ("upstream_down", "active")
            assert down.text.startswith("Nothing was sent: the server behind ledger_add cannot be reached")
            async with ledger(desk, port):
                await agent.until_up()
                assert not (await agent.call("ledger_add", item="b", id=8, saga_id=saga_id)).is_error
                done = await agent.call("saga_commit", saga_id=saga_id, accept_failed=[2])
                assert done.facts["state"] == "committed"
    assert desk.did == ["add a", "add b"]


@pytest.mark.slow
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


async def lose(desk: Desk, agent: Agent, saga_id: str) -> str:
    """Have a call take effect and its connection break; the code that its caller gets."""
    codes: list[str] = []

    async def add() -> None:
        answer = await agent.call("ledger_add", item="b", id=8, mode="hang_after", saga_id=saga_id)
        codes.append(answer.facts["code"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(add)
        await eventually(lambda: "add b" in desk.did)
        os.kill(desk.pids[-1], signal.SIGKILL)
    return codes[0]


@pytest.mark.slow
async def test_a_call_whose_connection_broke_counts_as_running_up_to_its_hard_deadline(desk: Desk) -> None:
    """S3.3: until then no person is asked, and nothing of its saga is undone."""
    async with ledger(desk) as port:
        point(desk, port, BLIND.replace("hard_deadline_s = 3", "hard_deadline_s = 10"))
        async with desk.open() as agent:
            await agent.until_up()
            saga_id = await agent.begin()
            await agent.call("ledger_add", item="a", id=7, saga_id=saga_id)
            assert await lose(desk, agent, saga_id) == "outcome_unknown"
            step = (await agent.call("saga_status", saga_id=saga_id)).value["structuredContent"]["steps"][1]
            assert (step["state"], step["running"]) == ("in_doubt", True)
            async with ledger(desk, port):
                await agent.until_up()
                waiting = await agent.until(saga_id, "needs_attention")
    assert not waiting["steps"][1].get("running")
    assert [item["kind"] for item in waiting["items"]] == ["in_doubt"]
    assert desk.called("remove") == 0


@pytest.mark.slow
async def test_a_probe_that_finds_it_settles_it_at_once_and_nothing_runs_any_more(desk: Desk) -> None:
    async with ledger(desk) as port:
        point(desk, port, PROBED, saga='on_error = "hold"')
        async with desk.open() as agent:
            await agent.until_up()
            saga_id = await agent.begin()
            assert await lose(desk, agent, saga_id) == "outcome_unknown"
            async with ledger(desk, port):
                await agent.until_up()
                with anyio.fail_after(BOUND_S):
                    while (await agent.call("saga_commit", saga_id=saga_id)).is_error:  # noqa: ASYNC110 - probed beside
                        await anyio.sleep(0.05)
    assert desk.did == ["add b"]


async def test_who_takes_over_from_a_killed_process_probes_at_once_too(desk: Desk) -> None:
    async with ledger(desk) as port:
        point(desk, port, PROBED)
        async with raw(desk) as client:
            await client.send(tool_call(1, "ledger_add", item="a", id=7, mode="hang_after"))
            await eventually(lambda: desk.did == ["add a"])
            os.kill(client.process.pid, signal.SIGKILL)
        async with desk.open() as agent:
            await agent.until_up()
            (saga,) = (await agent.call("saga_status")).value["structuredContent"]["sagas"]
            with anyio.fail_after(BOUND_S):
                while (await agent.call("saga_commit", saga_id=saga["saga_id"])).is_error:  # noqa: ASYNC110 - see above
                    await anyio.sleep(0.05)
    assert desk.did == ["add a"]


@pytest.mark.slow
async def test_a_lost_call_that_may_go_on_is_left_to_the_next_process_when_this_one_ends(desk: Desk) -> None:
    async with ledger(desk) as port, AsyncExitStack() as stack:
        point(desk, port, PROBED.replace("probe = ", "# "), saga='on_error = "hold"')
        opened = await stack.enter_async_context(app.open_app(app.load(desk.config)))
        client = await stack.enter_async_context(Client(build_server(opened.engine, opened.catalogue)))
        agent = Agent(client)
        await agent.until_up()
        saga_id = await agent.begin()
        assert await lose(desk, agent, saga_id) == "outcome_unknown"
        async with ledger(desk, port), anyio.create_task_group() as tasks:
            await agent.until_up()
            tasks.start_soon(partial(agent.call, "ledger_add", item="c", mode="hang_before"))
            await eventually(lambda: desk.called("add") == 2)
            await opened.engine.drain(4.0)
            status = (await agent.call("saga_status", saga_id=saga_id)).value["structuredContent"]
            desk.switch("go")
            assert (status["steps"][0]["state"], status["steps"][0]["running"]) == ("in_doubt", True)
