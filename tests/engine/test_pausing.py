"""A paused tool is called by nothing that the log has not stored before (the engine's side of `saga-mcp pause`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.world.reading import World
from tests.world.server import eventually, served

from saga_mcp.domain.errors import ToolPaused
from saga_mcp.domain.pausing import Pause
from saga_mcp.log.sql import SqlSagaLog
from saga_tools import Call, NoEffect, Retry, ToolRegistry, Undo

REALM = "ledger"


def pause_of(tool: str) -> Pause:
    return Pause(tool=tool, by="ann")


async def test_a_step_between_two_attempts_is_not_sent_again_before_its_tool_goes_on(database: Path) -> None:
    """Its first attempt pauses the tool: from outside there is no telling when an attempt has just ended."""
    tools, sent = ToolRegistry(), list[str]()

    @tools.tool(retry=Retry(attempts=5, first_delay_s=0.01, max_delay_s=0.01))
    async def book(call: Call) -> str:
        sent.append(call.key)
        if len(sent) == 1:
            async with SqlSagaLog.open(database) as beside:
                await beside.pause(REALM, pause_of("ledger.book"))
            raise NoEffect("not yet")
        return "booked"

    @tools.undoes(book)
    async def unbook(undo: Undo[str]) -> None:
        sent.append(f"undone {undo.call_key}")

    async with served(database, tools=tools, reply_within_s=0.5) as server:
        assert (await server.call("book")).code == "still_running"
        await eventually(lambda: len(sent) == 1)
        assert await server.log.resume(REALM, "ledger.book")
        await eventually(lambda: len(sent) == 2)
        assert sent[0] == sent[1]


async def test_what_an_undo_did_is_recorded_though_the_undo_that_follows_is_paused_meanwhile(database: Path) -> None:
    """Both would go into one append, which the pause refuses: the outcome must not be lost with the intent."""
    tools, done = ToolRegistry(), list[str]()

    @tools.tool
    async def first() -> str:
        return "a"

    @tools.undoes(first)
    async def unfirst(undo: Undo[str]) -> None:
        done.append(f"unfirst {undo.key[-3:]}")

    @tools.tool
    async def second() -> str:
        return "b"

    @tools.undoes(second)
    async def unsecond(undo: Undo[str]) -> None:
        async with SqlSagaLog.open(database) as beside:
            await beside.pause(REALM, pause_of("ledger.unfirst"))
        done.append(f"unsecond {undo.key[-3:]}")

    async with served(database, tools=tools, reply_within_s=0.5) as server:
        saga = await server.begin()
        await server.call("first", saga)
        await server.call("second", saga)
        assert (await server.abort(saga)).phase == "compensating"
        assert done == ["unsecond .g0"]
        assert (await server.history(saga))[-1] == "UndoSucceeded"
        await server.log.resume(REALM, "ledger.unfirst")
        assert (await server.rest(saga)).phase == "compensated"
    assert done == ["unsecond .g0", "unfirst .g0"]


async def test_no_intent_is_stored_after_a_pause_by_another_process(world: World, database: Path) -> None:
    async with served(database) as server, SqlSagaLog.open(database) as beside:
        await server.call("reserve", item="a")
        held = await beside.pause(REALM, pause_of("ledger.reserve"))
        assert await beside.pause(REALM, Pause(tool="ledger.reserve", by="bob")) == held
        with pytest.raises(ToolPaused, match="ann has paused"):
            await server.call("reserve", item="b")
        await beside.pause("another", pause_of("ledger.hold"))
        assert (await server.call("hold", item="c")).code == ""
        assert await beside.resume(REALM, "ledger.reserve")
        assert not await beside.resume(REALM, "ledger.reserve")
        assert (await server.call("reserve", item="d")).code == ""
    assert world.order == ["reserve(a)", "hold(c)", "reserve(d)"]
