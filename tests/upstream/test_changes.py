"""What an upstream tells of its tools while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from tests.upstream.desk import BOUND_S, PAIRED, Agent, Desk, eventually

from saga_mcp import app
from saga_mcp.edge.changes import ListChanges
from saga_mcp.edge.server import build_server

GROWING = PAIRED + '[tools."ledger.grow"]\nundo = { leave = "x" }\n[tools."ledger.grown"]\nundo = { leave = "x" }\n'


@dataclass
class Told:
    """What a client was told."""

    changes: int = 0
    event: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changes += 1
            self.event.set()


@pytest.mark.case(96)
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_changed_list_of_an_upstream_reaches_clients_of_both_eras(desk: Desk, era: str) -> None:
    desk.configure(GROWING)
    told, changes = Told(), ListChanges()
    async with app.open_app(app.load(desk.config), tools_changed=changes.tell) as opened:
        server = build_server(opened.engine, opened.catalogue, changes=changes)
        async with (
            Client(server, mode=era, message_handler=told, cache=None) as client,
            anyio.create_task_group() as tasks,
        ):
            agent = Agent(client)

            async def listen() -> None:
                async with client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        told.changes += 1
                        told.event.set()

            if era == "auto":
                tasks.start_soon(listen)
            await agent.until_up()
            assert "ledger_grown" not in await agent.tools()
            told.event = anyio.Event()
            await agent.call("ledger_grow")
            with anyio.fail_after(BOUND_S):
                await told.event.wait()
            assert (await agent.tools())["ledger_grown"]["description"].startswith("A tool that was not there before.")
            tasks.cancel_scope.cancel()


async def test_a_client_is_told_when_a_slow_upstream_has_come_up(desk: Desk) -> None:
    desk.switch("down")
    told, changes = Told(), ListChanges()
    async with app.open_app(app.load(desk.config), tools_changed=changes.tell) as opened:
        server = build_server(opened.engine, opened.catalogue, changes=changes)
        async with Client(server, mode="legacy", message_handler=told) as client:
            agent = Agent(client)
            assert (await agent.tools())["ledger_add"]["inputSchema"]["properties"].keys() == {"saga_id"}
            desk.switch("down", on=False)
            with anyio.fail_after(BOUND_S):
                await told.event.wait()
            assert "item" in (await agent.tools())["ledger_add"]["inputSchema"]["properties"]
            await eventually(lambda: told.changes == 1)
