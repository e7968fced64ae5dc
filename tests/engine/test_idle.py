"""Forgotten sagas: flagged, and ended where the config says so (SEMANTICS.md S9.4, CASES C94)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.world.clock import ManualClock
from tests.world.failing import LogAround
from tests.world.reading import World
from tests.world.server import SETTINGS, Server, served

from saga_mcp.domain.errors import LogUnavailable, SagaAborted
from saga_mcp.domain.values import ItemKind, OnError, OnIdle, Phase
from saga_mcp.log.port import SagaLog, SagaRow

FLAG_S = 170.0
END_S = 510.0
TICK_S = 17.0  # due at no moment at which a time limit of a call is
IDLE = replace(SETTINGS, idle_flag_s=FLAG_S, idle_end_s=END_S)


async def watched(clock: ManualClock, seconds: float, *, engines: int = 1) -> None:
    """Let time pass tick by tick, each counted by every engine before the next."""
    await clock.asleep_for(TICK_S, sleepers=engines)
    for _ in range(round(seconds / TICK_S)):
        clock.advance(TICK_S)
        await clock.asleep_for(TICK_S, sleepers=engines)


async def observed(server: Server) -> float:
    return await server.log.observe(SETTINGS.realm, -1.0, 0.0)


async def flagged(server: Server, saga_id: str) -> bool:
    return [item.kind for item in await server.items(saga_id)] == [ItemKind.IDLE]


@pytest.mark.case(94)
async def test_a_forgotten_saga_becomes_an_attention_item_and_nothing_more(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await watched(clock, FLAG_S - TICK_S)
        assert not await flagged(server, saga_id)
        await watched(clock, TICK_S)
        assert await flagged(server, saga_id)
        assert await server.state(saga_id) == "active"
        await watched(clock, 2 * END_S)
        assert (await server.history(saga_id)).count("SagaIdled") == 1
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert world.order == ["reserve(a)"]


async def test_the_next_reply_of_a_flagged_saga_knows_it_and_the_step_takes_the_flag_away(
    world: World, database: Path
) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await watched(clock, FLAG_S)
        assert (await server.call("reserve", saga_id, item="b")).was_idle
        assert not (await server.call("reserve", saga_id, item="c")).was_idle
        assert not await flagged(server, saga_id)
        await watched(clock, FLAG_S)
        assert await flagged(server, saga_id)
    assert len(world.standing) == 3


@pytest.mark.case(94)
async def test_steps_begin_the_time_anew_and_a_look_does_not(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE) as server:
        looked_at = (await server.call("reserve", item="a")).saga_id
        worked_on = (await server.call("reserve", item="b")).saga_id
        for _ in range(10):
            await watched(clock, TICK_S)
            await server.engine.saga(looked_at)
            await server.call("reserve", worked_on, item="c")
        assert (await flagged(server, looked_at), await flagged(server, worked_on)) == (True, False)
    assert len(world.standing) == 12


@pytest.mark.usefixtures("world")
async def test_several_processes_never_count_the_same_time_twice(database: Path) -> None:
    clock = ManualClock()
    async with (
        served(database, clock=clock, settings=IDLE) as one,
        served(database, clock=clock, settings=IDLE) as two,
        served(database, clock=clock, settings=IDLE),
    ):
        saga_id = (await one.call("reserve", item="a")).saga_id
        await watched(clock, FLAG_S - TICK_S, engines=3)
        assert await observed(two) == FLAG_S - TICK_S
        assert not await flagged(two, saga_id)
        await watched(clock, TICK_S, engines=3)
        assert await flagged(one, saga_id)


@pytest.mark.usefixtures("world")
@pytest.mark.case(94)
async def test_a_restart_does_not_begin_the_time_anew_and_nothing_counts_while_nobody_lives(database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await watched(clock, 5 * TICK_S)
    clock.advance(10 * END_S)
    async with served(database, clock=clock, settings=IDLE) as server:
        await watched(clock, 4 * TICK_S)
        assert not await flagged(server, saga_id)
        await watched(clock, TICK_S)
        assert await flagged(server, saga_id)


@pytest.mark.usefixtures("world")
@pytest.mark.case(94)
async def test_a_laptop_that_slept_two_days_loses_nothing(database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.ABORT) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await watched(clock, TICK_S)
        clock.advance(2 * 86400)
        await clock.asleep_for(TICK_S)
        assert await observed(server) == TICK_S + 60
        assert await server.items(saga_id) == ()


@pytest.mark.case(94)
async def test_a_running_step_is_not_cut_and_its_end_begins_the_time(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.ABORT, reply_within_s=1000.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve", saga_id, item="a", mode="hang_before"))
            await server.until(saga_id, lambda saga: len(saga.steps) == 1)
            await watched(clock, TICK_S)  # not up to the call's own time limit
            world.go()
        await watched(clock, FLAG_S - TICK_S)
        assert not await flagged(server, saga_id)
        await watched(clock, TICK_S)
        assert await flagged(server, saga_id)
    assert world.order == ["reserve(a)"]


@pytest.mark.case(94)
async def test_while_a_person_is_asked_nothing_is_counted(world: World, database: Path) -> None:
    """A step in doubt under `on_error = "hold"` waits for somebody's answer."""
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.ABORT, on_error=OnError.HOLD) as server:
        saga_id = (await server.call("reserve", item="a", mode="err_after")).saga_id
        (item,) = await server.items(saga_id)
        assert item.kind is ItemKind.IN_DOUBT
        await watched(clock, 2 * END_S)
        assert "SagaIdled" not in await server.history(saga_id)
        assert await server.state(saga_id) == "needs_attention"
    assert world.order == ["reserve(a)"]


@pytest.mark.case(94)
async def test_a_forgotten_saga_is_undone_where_the_config_says_so(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.ABORT) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await watched(clock, END_S - TICK_S)
        assert await flagged(server, saga_id)
        assert world.standing == ["reserve(a)"]
        await watched(clock, TICK_S)
        saga = await server.rest(saga_id)
        assert (saga.phase, saga.cause) == (Phase.COMPENSATED, "idle")
        with pytest.raises(SagaAborted, match="the idle limit"):
            await server.call("reserve", saga_id, item="b")
    assert world.order == ["reserve(a)", "release(a)"]


async def test_a_forgotten_saga_is_kept_where_the_config_says_so(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.COMMIT) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await watched(clock, END_S)
        assert await server.state(saga_id) == "committed"
    assert world.order == ["reserve(a)"]


async def test_a_forgotten_saga_that_cannot_be_kept_stays_flagged(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.COMMIT, on_error=OnError.HOLD) as server:
        saga_id = (await server.call("reserve", item="a", mode="err_before")).saga_id
        await watched(clock, 2 * END_S)
        assert (await flagged(server, saga_id), await server.state(saga_id)) == (True, "active")
    assert world.standing == []


async def test_past_the_pivot_a_forgotten_saga_is_only_flagged(world: World, database: Path) -> None:
    """S7.2."""
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.ABORT) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await server.call("send_mail", saga_id, to="bob")
        await watched(clock, 2 * END_S)
        assert (await flagged(server, saga_id), await server.state(saga_id)) == (True, "active")
    assert world.order == ["reserve(a)", "send_mail(bob)"]


@pytest.mark.usefixtures("world")
@pytest.mark.case(95)
async def test_what_is_over_is_left_alone(database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, settings=IDLE, on_idle=OnIdle.ABORT) as server:
        kept, dropped = [(await server.call("reserve", item=item)).saga_id for item in "ab"]
        await server.commit(kept)
        await server.abort(dropped)
        before = [await server.history(saga_id) for saga_id in (kept, dropped)]
        await watched(clock, 2 * END_S)
        assert [await server.history(saga_id) for saga_id in (kept, dropped)] == before


class BetweenLookAndAppend(LogAround):
    """Something happens after a saga was found idle and before anything is decided about it."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.then: Callable[[], Awaitable[object]] | None = None

    async def idle_sagas(self, realm: str, *, for_s: float) -> Sequence[SagaRow]:
        rows = await self.inner.idle_sagas(realm, for_s=for_s)
        if rows and for_s == END_S and self.then is not None:
            then, self.then = self.then, None
            await then()
        return rows


async def test_a_saga_in_which_something_happens_at_the_last_moment_is_not_undone(world: World, database: Path) -> None:
    clock = ManualClock()
    logs: list[BetweenLookAndAppend] = []

    def wrap(log: SagaLog) -> SagaLog:
        logs.append(BetweenLookAndAppend(log))
        return logs[0]

    async with served(database, clock=clock, wrap=wrap, settings=IDLE, on_idle=OnIdle.ABORT) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        logs[0].then = lambda: server.call("reserve", saga_id, item="b")
        await watched(clock, END_S)
        assert (await server.items(saga_id), await server.state(saga_id)) == ((), "active")
    assert world.order == ["reserve(a)", "reserve(b)"]


class UnwatchedLog(LogAround):
    """Cannot be written for a while by whoever counts time."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.left = 2

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        if self.left and seconds:
            self.left -= 1
            raise LogUnavailable("planted: the disk is full")
        return await super().observe(realm, seen, seconds)


@pytest.mark.usefixtures("world")
async def test_trouble_with_the_log_loses_no_time_and_ends_no_watch(database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, wrap=UnwatchedLog, settings=IDLE) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
        await watched(clock, FLAG_S)
        assert await observed(server) == FLAG_S
        assert await flagged(server, saga_id)
