"""Where a step was done is the only place where it is asked after, sent again and undone (S1.2; DESIGN.md rule 12)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import anyio
from tests.world.reading import World
from tests.world.server import eventually, served, settles_at_once

from saga_mcp.domain.values import ItemKind, StepState
from saga_mcp.tools.declared import DeclaredRegistry
from saga_mcp.tools.python_undo import PythonUndo


def elsewhere(declared: DeclaredRegistry) -> DeclaredRegistry:
    """The same names stand for another place."""
    declared = settles_at_once(declared)
    moved = tuple(replace(tool, pair=replace(tool.pair, target_id="elsewhere")) for tool in declared.tools)
    return replace(declared, tools=moved)


async def test_a_probe_does_not_ask_another_place(world: World, database: Path) -> None:
    """Its "absent" would be the truth about the wrong world: the charge would stand, and the saga read compensated."""
    async with served(database, adjust=settles_at_once) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("charge", saga_id, cents=5, mode="hang_after"))
            await eventually(lambda: bool(world.order))
            calls.cancel_scope.cancel()
    async with served(database, adjust=elsewhere) as server:
        await server.rest(saga_id)
        (item,) = await server.items(saga_id)
        assert item.step == 1
        assert await server.state(saga_id) == "needs_attention"
        assert (await server.engine.saga(saga_id)).step(1).state is not StepState.FAILED
    assert world.standing == ["charge(5)"]
    assert world.sent("find_charge") == []


async def test_a_retriable_step_is_not_sent_again_to_another_place(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="bob")
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("notify", saga_id, to="all", mode="hang_after"))
            await eventually(lambda: len(world.order) == 2)
            calls.cancel_scope.cancel()
    async with served(database, adjust=elsewhere) as server:
        await server.rest(saga_id)
        (item,) = await server.items(saga_id)
        assert (item.kind, item.step) == (ItemKind.RETRIABLE_EXHAUSTED, 2)
    assert len(world.sent("notify")) == 1


async def test_an_undo_is_not_sent_to_another_place_when_its_forward_action_is_gone(
    world: World, database: Path
) -> None:
    """The undo's own place is frozen with the pair: nothing else may be left to compare."""

    def only_the_undo(declared: DeclaredRegistry) -> DeclaredRegistry:
        return replace(declared, tools=tuple(tool for tool in declared.tools if tool.name != "ledger.reserve"))

    async with served(database) as server:
        reply = await server.call("reserve", item="a")
    with patch.object(PythonUndo, "target_id", "elsewhere"):
        async with served(database, adjust=only_the_undo) as server:
            await server.abort(reply.saga_id)
            (item,) = await server.items(reply.saga_id)
            assert item.kind is ItemKind.TARGET_CHANGED
    assert world.sent("release") == []
