"""A request only waits: its end, its limit or its cancellation changes nothing (DESIGN.md rule 6)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.world.clock import ManualClock
from tests.world.leaving import Leaving, leaves
from tests.world.reading import World
from tests.world.scans import CountedScans
from tests.world.server import eventually, served

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.values import Phase, StepState
from saga_mcp.engine.port import SagaIdMissing
from saga_mcp.log.port import SagaLog


async def _cut_off(work: Callable[[], Coroutine[Any, Any, object]], when: Callable[[], bool]) -> None:
    """Begin `work`, and cancel whoever waits for it as soon as `when` holds."""
    with anyio.CancelScope() as request:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await eventually(when)
            request.cancel()


@pytest.mark.case(41)
async def test_a_step_whose_request_was_cancelled_goes_on(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await _cut_off(
            lambda: server.call("reserve", saga_id, item="a", mode="hang_before"), lambda: bool(world.sent("reserve"))
        )
        world.go()
        saga = await server.rest(saga_id)
        assert saga.step(1).state is StepState.SUCCEEDED
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert world.standing == ["reserve(a)"]


@pytest.mark.case(38)
async def test_a_rollback_whose_request_was_cancelled_goes_on(world: World, database: Path) -> None:
    world.plan(release=["hang_before"])
    async with served(database) as server:
        saga_id = await server.begin()
        for item in "ab":
            await server.call("reserve", saga_id, item=item)
        await _cut_off(lambda: server.abort(saga_id), lambda: bool(world.sent("release")))
        world.go()
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []


async def test_a_rollback_begins_at_once_though_its_caller_left_when_it_was_stored(
    world: World, database: Path
) -> None:
    """Not with the next look at what is due: that may be hours away."""
    scans: list[CountedScans] = []

    def counted(log: SagaLog) -> SagaLog:
        scans.append(CountedScans(log))
        return scans[0]

    async with served(database, recovery_every_s=3600.0, wrap=counted) as server:
        await eventually(lambda: scans[0].looked == 1)  # the only one
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        assert await leaves(server.engine.abort(saga_id, cause="agent"), 1, Leaving.UNTOLD)
        await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.standing == []


@pytest.mark.case(104)
async def test_a_call_that_takes_longer_than_the_reply_may_goes_on(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=3.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                reply = await server.call("reserve", saga_id, item="a", mode="hang_before")
                assert (reply.code, reply.answer, reply.step) == ("still_running", None, 1)

            calls.start_soon(call)
            await eventually(lambda: bool(world.sent("reserve")))
            await clock.asleep_for(3.0)
            clock.advance(3.0)
        world.go()
        saga = await server.until(saga_id, lambda saga: saga.running == 0)
        assert saga.step(1).state is StepState.SUCCEEDED


@pytest.mark.case(104)
async def test_an_abort_that_takes_longer_than_the_reply_may_goes_on(world: World, database: Path) -> None:
    world.plan(release=["hang_before"])
    async with served(database, reply_within_s=0.05) as server:
        reply = await server.call("reserve", item="a")
        assert (await server.abort(reply.saga_id)).phase is Phase.COMPENSATING
        world.go()
        assert (await server.rest(reply.saga_id)).phase is Phase.COMPENSATED


@pytest.mark.parametrize("clocked", ["reply", "timeout"])
async def test_a_read_that_hangs_in_a_thread_holds_up_nobody(world: World, database: Path, clocked: str) -> None:
    clock = ManualClock()
    reply_within_s = 3.0 if clocked == "reply" else 100.0
    async with served(database, clock=clock, reply_within_s=reply_within_s) as server:
        async with anyio.create_task_group() as calls:

            async def read() -> None:
                reply = await server.call("balance", mode="hang_before")
                assert (reply.code, reply.saga) == ("step_failed", None)
                assert reply.answer is not None
                assert "changed nothing" in reply.answer.text

            calls.start_soon(read)
            await clock.asleep_for(min(30.0, reply_within_s))
            clock.advance(30.0)
        world.go()
        await eventually(lambda: len(world.did("balance")) == 1)


async def test_a_read_opens_no_saga(world: World, database: Path) -> None:
    """S11.2."""
    async with served(database) as server:
        reply = await server.call("balance")
        assert (reply.saga_id, reply.code) == ("", "")
        assert list(await server.log.sagas("ledger")) == []
    assert len(world.did("balance")) == 1


async def test_where_ids_are_required_a_call_without_one_is_refused(world: World, database: Path) -> None:
    async with served(database, saga_id_required=True) as server:
        with pytest.raises(SagaIdMissing):
            await server.call("reserve", item="a")
        await server.call("reserve", await server.begin(), item="b")
    assert world.standing == ["reserve(b)"]


async def test_draining_waits_for_what_runs_and_takes_nothing_new(world: World, database: Path) -> None:
    """S12.1."""
    async with served(database) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.call("reserve", saga_id, item="a", mode="hang_before"))
            await eventually(lambda: bool(world.sent("reserve")))
            tasks.start_soon(server.engine.drain, 5.0)
            await anyio.lowlevel.checkpoint()
            with pytest.raises(LogUnavailable):
                await server.call("reserve", saga_id, item="b")
            world.go()
        assert (await server.engine.saga(saga_id)).step(1).state is StepState.SUCCEEDED
    assert world.order == ["reserve(a)"]


async def test_draining_ends_in_its_time_whatever_runs(world: World, database: Path) -> None:
    async with served(database) as server:
        await _cut_off(lambda: server.call("hold", item="a", mode="hang_after"), lambda: bool(world.did("hold")))
        with anyio.fail_after(3):
            await server.engine.drain(0.05)
    assert world.order == ["hold(a)"]


@pytest.mark.case(99)
async def test_draining_finishes_the_undo_that_runs_and_begins_no_other(world: World, database: Path) -> None:
    """S12.1."""
    world.plan(release=["hang_before"])
    async with served(database, reply_within_s=0.05) as server:
        saga_id = await server.begin()
        for item in "ab":
            await server.call("reserve", saga_id, item=item)
        await server.abort(saga_id)
        await eventually(lambda: bool(world.sent("release")))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.engine.drain, 5.0)
            await anyio.lowlevel.checkpoint()
            world.go()
        saga = await server.engine.saga(saga_id)
        assert [step.state for step in saga.steps] == [StepState.SUCCEEDED, StepState.COMPENSATED]
    assert [line.args["item"] for line in world.sent("release")] == ["b"]


async def test_draining_begins_no_undo_and_no_attempt_while_a_call_still_runs(world: World, database: Path) -> None:
    """S12.1: no new work, whatever else is waited for."""
    world.plan(book=["err_before", "ok"], release=["0.05"])
    clock = ManualClock()
    async with served(database, clock=clock, on_error="hold") as server:
        hanging, between, undone = [await server.begin() for _ in range(3)]
        for item in "abc":
            await server.call("reserve", undone, item=item)
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve", hanging, item="z", mode="hang_before"))
            calls.start_soon(lambda: server.call("book", between, item="y"))
            await eventually(lambda: len(world.sent("book")) == 1 and len(world.sent("reserve")) == 4)
            calls.start_soon(server.abort, undone)
            await eventually(lambda: len(world.sent("release")) == 1)
            calls.start_soon(server.engine.drain, 60.0)
            await eventually(lambda: len(world.did()) == 4)
            world.go()
            await eventually(lambda: len(world.did()) == 5)
            await server.until(undone, lambda saga: saga.step(3).state is StepState.COMPENSATED)
            assert len(world.sent("release")) == 1
            assert len(world.sent("book")) == 1
            calls.cancel_scope.cancel()
