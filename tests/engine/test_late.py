"""Effects and answers that come late, and what a person said meanwhile (SEMANTICS.md S3.6, S5.5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
from tests.world.clock import ManualClock
from tests.world.reading import World
from tests.world.server import Server, served

from saga_mcp.domain.person_decisions import exempt, resolve_absent, retry
from saga_mcp.domain.values import ItemKind, Phase, StepState
from saga_mcp.tools.declared import DeclaredRegistry

WHO = {"by": "ada", "note": "looked"}


async def _past_its_deadline(server: Server, clock: ManualClock, saga_id: str, mode: str) -> None:
    """A call in a thread passes its time limit and its hard deadline."""
    async with anyio.create_task_group() as calls:
        calls.start_soon(lambda: server.call("hold", saga_id, item="a", mode=mode))
        await clock.asleep_for(30)
        clock.advance(30)
    await clock.asleep_for(270)
    clock.advance(270)
    await server.until(saga_id, lambda saga: saga.step(1).overdue)


async def test_an_effect_that_lands_after_the_saga_was_undone_is_undone_too(world: World, database: Path) -> None:
    """S5.5: a person had said that nothing happened."""
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1000.0, probe_for_s=5.0) as server:
        saga_id = await server.begin()
        await _past_its_deadline(server, clock, saga_id, "hang_before")
        await server.engine.decide_item(saga_id, lambda now, d: resolve_absent(now, 1, driving=d, **WHO))
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
        world.go()
        saga = await server.until(saga_id, lambda saga: saga.step(1).state is StepState.COMPENSATED)
        assert saga.phase is Phase.COMPENSATED
        assert "RollbackReopened" in await server.history(saga_id)
    assert world.order == ["hold(a)", "unhold(a)"]


async def test_an_effect_that_a_person_exempted_stays_when_it_lands(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1000.0, probe_for_s=5.0) as server:
        saga_id = await server.begin()
        await _past_its_deadline(server, clock, saga_id, "hang_before")
        await server.engine.decide_item(saga_id, lambda now, d: exempt(now, 1, driving=d, **WHO))
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
        world.go()
        saga = await server.until(saga_id, lambda saga: saga.step(1).landed is True)
        assert (saga.phase, saga.step(1).state) == (Phase.COMPENSATED, StepState.EXEMPT)
    assert world.order == ["hold(a)"]


async def test_an_undo_that_hangs_is_stopped_at_its_deadline_and_sent_again_where_that_is_harmless(
    world: World, database: Path
) -> None:
    clock = ManualClock()
    world.plan(release=["hang_before", "ok"])
    async with served(database, clock=clock, reply_within_s=1.0, recovery_every_s=7.0) as server:
        reply = await server.call("reserve", item="a")
        async with anyio.create_task_group() as calls:
            calls.start_soon(server.abort, reply.saga_id)
            await clock.asleep_for(30)
            clock.advance(30)
        await clock.asleep_for(270)
        assert len(world.sent("release")) == 1
        clock.advance(270)
        await clock.asleep_for(0.05)
        clock.advance(0.05)
        await server.until(reply.saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    first, second = world.sent("release")
    assert first.undo_key == second.undo_key


async def test_an_undo_in_a_thread_past_its_deadline_is_for_a_person_until_it_returns(
    world: World, database: Path
) -> None:
    """S3.3: it cannot be stopped, nothing else is undone beside it, and it is not out of sight."""
    clock = ManualClock()
    world.plan(unhold=["hang_before"])
    async with served(database, clock=clock, reply_within_s=1.0, recovery_every_s=7.0) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("hold", saga_id, item="b")
        async with anyio.create_task_group() as calls:
            calls.start_soon(server.abort, saga_id)
            await clock.asleep_for(30)
            clock.advance(30)
        await clock.asleep_for(270)
        clock.advance(270)
        await server.until(saga_id, lambda saga: saga.step(2).undo_overdue)
        (item,) = await server.items(saga_id)
        assert (item.kind, item.step) == (ItemKind.UNDO_IN_DOUBT, 2)
        assert await server.state(saga_id) == "needs_attention"
        assert world.sent("release") == []
        world.go()
        await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order == ["reserve(a)", "hold(b)", "unhold(b)", "release(a)"]


async def test_a_violated_rule_aborts_the_saga_by_its_name(world: World, database: Path) -> None:
    """S9.3."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("charge", saga_id, cents=2000)
        saga = await server.rest(saga_id)
        assert (saga.phase, saga.cause) == (Phase.COMPENSATED, "invariant:affordable")
    assert world.order == ["reserve(a)", "charge(2000)", "refund(2000)", "release(a)"]


async def test_a_rule_that_is_violated_after_the_pivot_is_for_a_person(world: World, database: Path) -> None:
    """S7.2: nothing can be taken back any more; S14.2: it does not change the reported state."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="bob")
        await server.call("notify", saga_id, to="everyone")
        (item,) = await server.items(saga_id)
        assert (item.kind, item.step, await server.state(saga_id)) == (ItemKind.INVARIANT, 0, "active")
        await server.engine.decide_item(saga_id, lambda now, d: exempt(now, 0, driving=d, **WHO))
        assert await server.items(saga_id) == ()
    assert world.standing == ["send_mail(bob)", "notify(everyone)"]


async def test_a_saga_is_undone_only_where_it_was_done(world: World, database: Path) -> None:
    """S1.2: the tool now points to another place."""

    def elsewhere(declared: DeclaredRegistry) -> DeclaredRegistry:
        moved = tuple(replace(tool, pair=replace(tool.pair, target_id="elsewhere")) for tool in declared.tools)
        return replace(declared, tools=moved)

    async with served(database) as server:
        reply = await server.call("reserve", item="a")
    async with served(database, adjust=elsewhere) as server:
        await server.abort(reply.saga_id)
        (item,) = await server.items(reply.saga_id)
        assert item.kind is ItemKind.TARGET_CHANGED
        assert world.sent("release") == []
    async with served(database) as server:
        await server.engine.decide_item(reply.saga_id, lambda now, d: retry(now, 1, driving=d, **WHO))
        assert (await server.rest(reply.saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []


async def test_the_undo_that_was_promised_runs_whatever_the_config_says_later(world: World, database: Path) -> None:
    """S6.1: frozen with the intent; here the new config has no undo for the tool at all."""

    def without_undo(declared: DeclaredRegistry) -> DeclaredRegistry:
        return replace(
            declared, tools=tuple(replace(tool, pair=replace(tool.pair, undo=())) for tool in declared.tools)
        )

    async with served(database) as server:
        reply = await server.call("reserve", item="a")
    async with served(database, adjust=without_undo) as server:
        assert (await server.abort(reply.saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []


async def test_a_part_is_registered_until_the_call_has_really_ended(world: World, database: Path) -> None:
    """S6.2: long after the time limit, with the rollback already waiting for the call."""
    clock = ManualClock()
    world.plan(reserve_one=["hang_before", "ok"])
    async with served(database, clock=clock, reply_within_s=1000.0, probe_for_s=5.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve_many", saga_id, items=["a", "b", "c"]))
            await clock.asleep_for(30)
            clock.advance(30)
            await clock.asleep_for(5)
            clock.advance(5)
            await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATING)
            world.go()
        await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.standing == []
    assert [line.args["item"] for line in world.did("free_one")] == ["c", "b", "a"]
