"""What one machine did, others leave to it (SEMANTICS.md S1.3): engines of several machines over one log.

Over LEDGER, whose tools are declared here as of the machine that serves them; in real processes in `tests/postgres`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.world.clock import NotingClock
from tests.world.failing import HeldLog
from tests.world.reading import World
from tests.world.server import ME, Server, eventually, served, settles_at_once

from saga_mcp.domain.approvals import approve
from saga_mcp.domain.attention import reported_state
from saga_mcp.domain.errors import StepUnsettled
from saga_mcp.domain.events import AbortRequested, Event
from saga_mcp.domain.person_decisions import exempt, resolve_undone
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.values import ItemKind, OnError, Phase, StepState
from saga_mcp.engine.drivers.local import LocalDriver
from saga_mcp.log.port import SagaLog
from saga_mcp.tools.declared import DeclaredRegistry, DeclaredTool

MINUTES_S = 60.0


class Leaping(NotingClock):
    """A clock that a test puts forward."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


def of(
    host: str, *, shared: Collection[str] = (), approval: bool = False
) -> Callable[[DeclaredRegistry], DeclaredRegistry]:
    """Declares all tools but the `shared` ones as of a machine."""

    def placed(tool: DeclaredTool) -> DeclaredTool:
        own = "" if tool.registered.name in shared else host
        return replace(tool, pair=replace(tool.pair, host=own, approval=approval or tool.pair.approval))

    def adjust(declared: DeclaredRegistry) -> DeclaredRegistry:
        declared = settles_at_once(declared)
        return replace(declared, tools=tuple(map(placed, declared.tools)))

    return adjust


@asynccontextmanager
async def on(
    host: str,
    database: Path,
    *,
    shared: Collection[str] = (),
    approval: bool = False,
    **changed: Any,  # noqa: ANN401 - the settings
) -> AsyncGenerator[Server]:
    """A server on a machine."""
    adjust = of(host, shared=shared, approval=approval)
    changed.setdefault("probe_for_s", 5.0)
    async with served(database, adjust=adjust, host=host, **changed) as server:
        yield server


async def abort(server: Server, saga_id: str) -> None:
    """Abort, and do not wait for what others have to do."""
    async with anyio.create_task_group() as asking:
        asking.start_soon(server.abort, saga_id)
        await server.until(saga_id, lambda saga: saga.phase is not Phase.ACTIVE)
        asking.cancel_scope.cancel()


async def counted(server: Server, saga_id: str) -> None:
    """Return once the server counts the time that a step of the saga has waited for its machine."""
    driver = server.engine._driver  # pyright: ignore[reportPrivateUsage]  # what it has seen shows nowhere else
    assert isinstance(driver, LocalDriver)
    await eventually(lambda: any(of == saga_id for of, _ in driver._awaited._since))  # pyright: ignore[reportPrivateUsage]  # see above


async def claims(server: Server, saga_id: str) -> int:
    return (await server.history(saga_id)).count("SagaClaimed")


async def test_a_step_of_another_machine_is_left_to_it_and_undone_when_it_is_back(world: World, database: Path) -> None:
    async with on("a", database) as there:
        saga_id = await there.begin()
        await there.call("reserve", saga_id, item="x")
    async with on("b", database) as here:
        await abort(here, saga_id)
        await here.until(saga_id, lambda saga: saga.driver == "")
        before = await here.history(saga_id)
        await anyio.sleep(0.5)  # ten scans: nobody may hand the saga to and fro
        assert await here.history(saga_id) == before
        assert await here.items(saga_id) == ()
        assert await here.state(saga_id) == "compensating"
        assert world.sent("release") == []
        async with on("a", database) as there:
            await there.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order == ["reserve(x)", "release(x)"]


async def test_the_order_is_kept_over_machines_and_none_hands_the_saga_to_and_fro(world: World, database: Path) -> None:
    async with on("a", database) as one, on("b", database) as two:
        saga_id = await one.begin()
        for server, item in ((one, "1"), (two, "2"), (one, "3"), (one, "4")):
            await server.call("reserve", saga_id, item=item)
        await abort(two, saga_id)
        await two.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
        assert await claims(two, saga_id) <= 7
    assert world.order[4:] == ["release(4)", "release(3)", "release(2)", "release(1)"]


async def awaited(here: Server, database: Path) -> str:
    """A saga that is to be undone, whose newest step waits for machine `a`, where nobody is any more."""
    saga_id = await here.begin()
    await here.call("reserve", saga_id, item="mine")
    async with on("a", database) as there:
        await there.call("reserve", saga_id, item="theirs")
    await abort(here, saga_id)
    await here.until(saga_id, lambda saga: saga.driver == "")
    return saga_id


async def test_an_abort_whose_caller_left_before_anybody_drove_is_left_to_the_machine_too(
    world: World, database: Path
) -> None:
    """The server that stored it lives on, so the other machine must find the saga given back."""
    logs: list[HeldLog] = []

    def held(log: SagaLog) -> SagaLog:
        logs.append(HeldLog(log))
        return logs[-1]

    async with on("a", database) as there:
        saga_id = await there.begin()
        await there.call("reserve", saga_id, item="x")
        async with on("b", database, wrap=held) as here:
            logs[0].hold(AbortRequested, stored=True)
            async with anyio.create_task_group() as asking:
                asking.start_soon(here.abort, saga_id)
                await logs[0].held.wait()
                asking.cancel_scope.cancel()
            logs[0].hold_no_more()
            await there.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order == ["reserve(x)", "release(x)"]


async def test_what_waits_for_its_machine_holds_the_older_steps_of_everybody(world: World, database: Path) -> None:
    async with on("b", database) as here:
        saga_id = await awaited(here, database)
        await anyio.sleep(0.3)
        assert world.sent("release") == []
        async with on("a", database) as there:
            await there.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order[2:] == ["release(theirs)", "release(mine)"]


async def test_after_ten_minutes_people_are_told_and_no_longer_once_the_machine_is_back(
    world: World, database: Path
) -> None:
    async with on("a", database) as there:
        saga_id = await there.begin()
        await there.call("reserve", saga_id, item="x")
    clock = Leaping()
    async with on("b", database, clock=clock) as here:
        await abort(here, saga_id)
        await counted(here, saga_id)
        clock.ahead_s = 9 * MINUTES_S
        await anyio.sleep(0.2)
        assert await here.items(saga_id) == ()
        clock.ahead_s = 11 * MINUTES_S
        saga = await here.until(saga_id, lambda saga: reported_state(saga) == "needs_attention")
        [item] = await here.items(saga.id)
        assert (item.kind, item.step, item.message) == (ItemKind.NEEDS_HOST, 1, "needs host a")
        assert (await here.history(saga_id)).count("StepHostAwaited") == 1
        clock.ahead_s = 90 * MINUTES_S
        await anyio.sleep(0.3)
        assert (await here.history(saga_id)).count("StepHostAwaited") == 1
        assert world.sent("release") == []
        async with on("a", database) as there:
            await there.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
            assert await there.items(saga_id) == ()


@pytest.mark.parametrize("decision", [resolve_undone, exempt], ids=["undone", "exempt"])
async def test_a_person_ends_the_wait_and_the_older_steps_go_on_here(
    world: World, database: Path, decision: Callable[..., tuple[Event, ...]]
) -> None:
    clock = Leaping()
    async with on("b", database, clock=clock) as here:
        saga_id = await awaited(here, database)
        await counted(here, saga_id)
        clock.ahead_s = 11 * MINUTES_S
        await here.until(saga_id, lambda saga: reported_state(saga) == "needs_attention")
        await here.engine.decide_item(
            saga_id, lambda saga, driving: decision(saga, 2, by="ada", note="the disk is gone", driving=driving)
        )
        await here.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order[2:] == ["release(mine)"]


async def test_a_doubt_is_asked_about_only_where_the_call_was_made(world: World, database: Path) -> None:
    clock = Leaping()
    async with on("a", database) as there:
        saga_id = await there.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: there.call("charge", saga_id, cents=5, mode="hang_after"))
            await eventually(lambda: bool(world.order))
            calls.cancel_scope.cancel()
    async with on("b", database, clock=clock) as here:
        await here.until(saga_id, lambda saga: saga.step(1).state is StepState.IN_DOUBT and saga.driver == "")
        await abort(here, saga_id)
        await counted(here, saga_id)
        await anyio.sleep(0.3)
        assert world.sent("find_charge") == []
        assert not (await here.engine.saga(saga_id)).step(1).probes_ended
        clock.ahead_s = 11 * MINUTES_S
        await here.until(saga_id, lambda saga: reported_state(saga) == "needs_attention")
        [item] = await here.items(saga_id)
        assert (item.kind, item.message) == (ItemKind.IN_DOUBT, "needs host a")
        saga = await here.engine.saga(saga_id)
        asked = await here.engine.probing.ask(saga, 1)
        assert "needs host a" in asked.verdict.error  # type: ignore[union-attr]
        assert world.sent("find_charge") == []
        async with on("a", database) as there:
            await there.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order == ["charge(5)", "refund(5)"]


async def test_a_retriable_step_is_sent_again_only_by_its_machine(world: World, database: Path) -> None:
    async with on("a", database) as there:
        saga_id = await there.begin()
        await there.call("send_mail", saga_id, to="bob")
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: there.call("notify", saga_id, to="all", mode="hang_after"))
            await eventually(lambda: len(world.order) == 2)
            calls.cancel_scope.cancel()
    clock = Leaping()
    async with on("b", database, clock=clock) as here:
        await here.until(saga_id, lambda saga: not saga.step(2).running and saga.driver == "")
        await counted(here, saga_id)
        await anyio.sleep(0.3)
        assert len(world.sent("notify")) == 1
        assert not (await here.engine.saga(saga_id)).step(2).exhausted
        clock.ahead_s = 11 * MINUTES_S
        await here.until(saga_id, lambda saga: reported_state(saga) == "needs_attention")
        [item] = await here.items(saga_id)
        assert (item.kind, item.step, item.has_undo) == (ItemKind.NEEDS_HOST, 2, False)
        world.plan(notify=["ok"])
        async with on("a", database) as there:
            await there.until(saga_id, lambda saga: saga.step(2).state is StepState.SUCCEEDED)
    assert len(world.sent("notify")) == 2


async def test_a_call_that_was_allowed_is_sent_by_the_machine_it_was_asked_on(world: World, database: Path) -> None:
    async with on("b", database, approval=True) as here:
        async with on("a", database, approval=True) as there:
            asked = await there.call("reserve", item="x")
        await here.engine.decide_item(
            asked.saga_id,
            lambda saga, _: approve(saga, 1, by="ada", note="", now=here.engine._shop.clock.wall()),  # pyright: ignore[reportPrivateUsage]  # the same clock
        )
        await anyio.sleep(0.3)
        assert world.sent("reserve") == []
        assert await here.items(asked.saga_id) == ()
        async with on("a", database, approval=True) as there:
            await there.until(asked.saga_id, lambda saga: saga.step(1).state is StepState.SUCCEEDED)
    assert world.order == ["reserve(x)"]


async def test_the_same_call_by_its_key_is_not_sent_again_on_another_machine(world: World, database: Path) -> None:
    async with on("a", database, on_error=OnError.HOLD) as there:
        saga_id = await there.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(_keyed, there, saga_id, "hang_after")
            await eventually(lambda: bool(world.order))
            calls.cancel_scope.cancel()
    async with on("b", database, on_error=OnError.HOLD) as here:
        await here.until(saga_id, lambda saga: saga.step(1).state is StepState.IN_DOUBT)
        with pytest.raises(StepUnsettled):
            await _keyed(here, saga_id, "hang_after")
    assert len(world.sent("book")) == 1


async def _keyed(server: Server, saga_id: str, mode: str) -> None:
    await server.engine.call("book", {"item": "x", "mode": mode}, saga_id=saga_id, step_key="k", caller=ME)


async def test_a_process_without_a_machine_leaves_steps_of_machines_alone_and_does_its_own(
    world: World, database: Path
) -> None:
    async with on("a", database) as there:
        of_machine = (await there.call("reserve", item="x")).saga_id
    async with on("a", database, shared=["reserve"]) as there:
        of_none = (await there.call("reserve", item="y")).saga_id
    async with served(database, adjust=settles_at_once) as here:  # as an older version stored it: no machine
        await abort(here, of_none)
        await here.until(of_none, lambda saga: saga.phase is Phase.COMPENSATED)
        await abort(here, of_machine)
        await here.until(of_machine, lambda saga: saga.driver == "")
    assert world.order[2:] == ["release(y)"]


async def test_a_revert_asked_for_at_the_wrong_machine_is_carried_out_by_the_right_one(
    world: World, database: Path
) -> None:
    async with on("a", database) as there, on("b", database) as here:
        kept = await here.begin()
        for server, item in ((here, "1"), (there, "2"), (here, "3")):
            await server.call("reserve", kept, item=item)
        await here.commit(kept)
        reverting = await there.engine.revert(kept, RevertOrder(by="ada"))
        assert reverting.phase is Phase.COMPENSATED
    assert world.order[3:] == ["release(3)", "release(2)", "release(1)"]


async def test_a_revert_waits_for_a_machine_that_is_away_and_people_are_told(world: World, database: Path) -> None:
    clock = Leaping()
    async with on("b", database, clock=clock, reply_within_s=0.3) as here:
        kept = await here.begin()
        await here.call("reserve", kept, item="mine")
        async with on("a", database) as there:
            await there.call("reserve", kept, item="theirs")
        await here.commit(kept)
        reverting = await here.engine.revert(kept, RevertOrder(by="ada"))
        assert (reverting.phase, world.sent("release")) == (Phase.COMPENSATING, [])
        await here.until(reverting.id, lambda saga: saga.driver == "")
        await anyio.sleep(0.2)
        clock.ahead_s = 11 * MINUTES_S
        await here.until(reverting.id, lambda saga: reported_state(saga) == "needs_attention")
        [item] = await here.items(reverting.id)
        assert (item.kind, item.step, item.message) == (ItemKind.NEEDS_HOST, 2, "needs host a")
        async with on("a", database) as there:
            await there.until(reverting.id, lambda saga: saga.phase is Phase.COMPENSATED)
        assert await here.items(reverting.id) == ()
        assert (await here.engine.saga(kept)).phase is Phase.COMMITTED
    assert world.order[2:] == ["release(theirs)", "release(mine)"]


async def test_a_revert_of_one_step_of_another_machine_leaves_the_others(world: World, database: Path) -> None:
    async with on("a", database) as there, on("b", database) as here:
        kept = await here.begin()
        for server, item in ((there, "1"), (here, "2")):
            await server.call("reserve", kept, item=item)
        await here.commit(kept)
        reverting = await here.engine.revert(kept, RevertOrder(by="ada", step=1))
        assert reverting.phase is Phase.COMPENSATED
    assert world.standing == ["reserve(2)"]
