"""Several engines on one database: takeover, races, isolation (DESIGN.md rule 7; SEMANTICS.md S3.5, S10)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.world.clock import ManualClock
from tests.world.failing import LogAround
from tests.world.reading import World
from tests.world.scans import CountedScans
from tests.world.server import ME, SETTINGS, Server, eventually, served

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import Refused, SagaClosed, SagaNotFound, SagaQuarantined
from saga_mcp.domain.events import Event
from saga_mcp.domain.saga_decisions import take_over
from saga_mcp.domain.state import Saga
from saga_mcp.domain.stranded import Attempt
from saga_mcp.domain.values import OnError, Phase, StepState
from saga_mcp.engine.port import SagaIdMistyped
from saga_mcp.log.port import SagaLog


@pytest.mark.case(70)
async def test_what_a_dead_process_was_doing_is_taken_over(world: World, database: Path) -> None:
    """A forward action that ran inside it has ended with it, so nobody has to be asked."""
    async with served(database) as survivor:
        async with served(database) as mortal:
            saga_id = await mortal.begin()
            await mortal.call("reserve", saga_id, item="a")
            with anyio.CancelScope() as request:
                async with anyio.create_task_group() as call:
                    call.start_soon(lambda: mortal.call("reserve", saga_id, item="b", mode="hang_after"))
                    await eventually(lambda: len(world.did("reserve")) == 2)
                    request.cancel()
        saga = await survivor.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
        assert (saga.cause, saga.driver) == ("step_failed:2", survivor.owner)
    assert world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


async def test_a_rollback_of_a_dead_process_is_carried_on(world: World, database: Path) -> None:
    world.plan(release=["ok", "hang_before"])
    async with served(database) as survivor:
        async with served(database, reply_within_s=0.1) as mortal:
            saga_id = await mortal.begin()
            for item in "abc":
                await mortal.call("reserve", saga_id, item=item)
            await mortal.abort(saga_id)
            await eventually(lambda: len(world.sent("release")) == 2)
        world.go()
        await survivor.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert [line.args["item"] for line in world.did("release")] == ["c", "b", "a"]
    assert all(len(keys) == 1 for keys in world.undo_keys.values())


@pytest.mark.case(14, 15)
async def test_work_of_a_living_process_is_left_alone(world: World, database: Path) -> None:
    async with served(database) as one, served(database, wrap=CountedScans, recovery_every_s=0.01) as two:
        assert isinstance(two.log, CountedScans)
        saga_id = await one.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: one.call("reserve", saga_id, item="a", mode="hang_before"))
            await eventually(lambda: len(world.sent("reserve")) == 1)
            for _ in range(3):
                await two.log.over(1)
                assert (await two.engine.saga(saga_id)).step(1).state is StepState.INTENDED
            world.go()
        assert (await two.commit(saga_id)).phase is Phase.COMMITTED
    assert world.order == ["reserve(a)"]


async def test_only_the_actions_of_the_dead_owner_fall_in_doubt(world: World, database: Path) -> None:
    """S3.5."""
    async with served(database, on_error=OnError.HOLD) as survivor:
        saga_id = await survivor.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: survivor.call("reserve", saga_id, item="a", mode="hang_after"))
            await eventually(lambda: len(world.did("reserve")) == 1)
            async with served(database, on_error=OnError.HOLD) as mortal:
                with anyio.CancelScope() as request:
                    async with anyio.create_task_group() as call:
                        call.start_soon(lambda: mortal.call("reserve", saga_id, item="b", mode="hang_after"))
                        await eventually(lambda: len(world.did("reserve")) == 2)
                        request.cancel()
            saga = await survivor.until(saga_id, lambda saga: saga.step(2).state is StepState.IN_DOUBT)
            assert (saga.step(1).state, saga.step(1).running) == (StepState.INTENDED, True)
            world.go()


@pytest.mark.case(59)
async def test_five_aborts_at_once_from_two_engines_are_one_rollback(world: World, database: Path) -> None:
    async with served(database) as one, served(database) as two:
        saga_id = await one.begin()
        for item in "abc":
            await one.call("reserve", saga_id, item=item)
        replies: list[Phase] = []

        async def abort(server: Server) -> None:
            replies.append((await server.abort(saga_id)).phase)

        async with anyio.create_task_group() as aborts:
            for server in (one, two, one, two, one):
                aborts.start_soon(abort, server)
    assert replies == [Phase.COMPENSATED] * 5
    assert [line.args["item"] for line in world.sent("release")] == ["c", "b", "a"]


@pytest.mark.case(28)
async def test_of_a_commit_and_an_abort_exactly_one_wins(world: World, database: Path) -> None:
    async with served(database) as one, served(database) as two:
        for _ in range(40):
            reply = await one.call("reserve", item="a")
            won: list[str] = []

            async def commit(saga_id: str = reply.saga_id, won: list[str] = won) -> None:
                with contextlib.suppress(Refused):
                    won.append((await one.commit(saga_id)).phase)

            async def abort(saga_id: str = reply.saga_id, won: list[str] = won) -> None:
                with contextlib.suppress(Refused):
                    won.append((await two.abort(saga_id)).phase)

            before = len(world.did("release"))
            async with anyio.create_task_group() as race:
                race.start_soon(commit)
                race.start_soon(abort)
            assert len(won) == 1
            assert await one.state(reply.saga_id) == won[0]
            assert len(world.did("release")) - before == (won[0] == "compensated")


@pytest.mark.case(29)
async def test_twenty_first_calls_with_one_key_open_one_saga(world: World, database: Path) -> None:
    async with served(database) as one, served(database) as two:
        ids: list[str] = []

        async def begin(server: Server, number: int) -> None:
            saga = await server.engine.begin(ME, key="trip")
            ids.append(saga.id)
            await server.call("reserve", saga.id, item=str(number))

        async with anyio.create_task_group() as callers:
            for number in range(20):
                callers.start_soon(begin, (one, two)[number % 2], number)
        assert len(set(ids)) == 1
        saga = await one.commit(ids[0])
        assert len(saga.steps) == 20
        with pytest.raises(SagaClosed):
            await two.engine.begin(ME, key="trip")
    assert len(world.standing) == 20


async def test_a_saga_of_another_realm_is_not_there(world: World, database: Path) -> None:
    """S1.1."""
    async with served(database) as one, served(database, realm="other") as two:
        saga_id = await one.begin()
        with pytest.raises(SagaNotFound):
            await two.call("reserve", saga_id, item="a")
        with pytest.raises(SagaNotFound):
            await two.abort(saga_id)
        with pytest.raises(SagaNotFound):
            await two.engine.saga(saga_id)
        with pytest.raises(SagaIdMistyped):
            await one.call("reserve", saga_id[:-1] + ("0" if saga_id[-1] != "0" else "1"), item="a")
        assert len(await two.engine.open_sagas(ME)) == 0
    assert world.sent() == []


@pytest.mark.case(67)
async def test_one_damaged_saga_does_not_stop_the_recovery_of_the_others(world: World, database: Path) -> None:
    ids: list[str] = []
    async with served(database, reply_within_s=0.01) as mortal:
        for number in range(10):
            reply = await mortal.call("reserve", item=str(number), mode="hang_after")
            ids.append(reply.saga_id)
        await eventually(lambda: len(world.did("reserve")) == 10)
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE saga_event SET facts = '{' WHERE saga_id = ? AND seq = 2", (ids[0],))
    async with served(database) as server:
        assert (await server.call("reserve", item="new")).code == ""
        for saga_id in ids[1:]:
            assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
        with pytest.raises(SagaQuarantined):
            await server.engine.saga(ids[0])
    assert world.standing == ["reserve(0)", "reserve(new)"]


@pytest.mark.case(67)
async def test_a_process_that_met_a_damaged_saga_goes_on_with_what_others_do(world: World, database: Path) -> None:
    async with served(database) as one, served(database) as two:
        bad, good = await one.begin(), await one.begin()
        await one.call("reserve", bad, item="a")
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE saga_event SET facts = '{' WHERE saga_id = ? AND seq = 2", (bad,))
        with pytest.raises(SagaQuarantined):
            await two.abort(bad)
        await one.call("reserve", good, item="b")
        assert len((await two.engine.saga(good)).steps) == 1
        reply = await two.call("reserve", good, item="c")
        assert (reply.code, reply.step) == ("", 2)
        assert (await one.abort(good)).phase is Phase.COMPENSATED
    assert world.standing == ["reserve(a)"]


async def test_a_saga_whose_recovery_meets_a_bug_does_not_stop_the_others(
    world: World, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(database, reply_within_s=0.01) as mortal:
        ids = [(await mortal.call("reserve", item=str(number), mode="hang_after")).saga_id for number in range(4)]
        await eventually(lambda: len(world.did("reserve")) == 4)

    def broken(
        saga: Saga,
        driving: Driving,
        dead: Callable[[str], bool],
        lasting: frozenset[Attempt],
        **of: Any,  # noqa: ANN401 - passed on
    ) -> tuple[Event, ...]:
        if saga.id == ids[-1]:
            raise ZeroDivisionError
        return take_over(saga, driving, dead, lasting, **of)

    monkeypatch.setattr("saga_mcp.engine.drivers.rounds.take_over", broken)
    async with served(database) as server:
        for saga_id in ids[:-1]:
            await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.standing == ["reserve(3)"]


async def test_settings_of_a_saga_are_those_it_was_opened_with(world: World, database: Path) -> None:
    async with served(database, on_error=OnError.HOLD) as one:
        saga_id = await one.begin()
    async with served(database, on_error=SETTINGS.on_error) as two:
        await two.call("reserve", saga_id, item="a", mode="err_before")
        assert await two.state(saga_id) == "active"
    assert world.standing == []


class CountedWakes(LogAround):
    """How often somebody was told of a change, and how often a saga was read."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.woken = self.loads = 0

    async def wait_for_change(self, seen: int = 0) -> int:
        change = await self.inner.wait_for_change(seen)
        self.woken += 1
        return change

    async def load(self, saga_id: str) -> Saga:
        self.loads += 1
        return await self.inner.load(saga_id)


def counted(kept: list[CountedWakes]) -> Callable[[SagaLog], SagaLog]:
    def wrap(log: SagaLog) -> SagaLog:
        kept.append(CountedWakes(log))
        return kept[-1]

    return wrap


async def test_a_rollback_is_not_woken_by_its_own_appends(world: World, database: Path) -> None:
    logs: list[CountedWakes] = []
    async with served(database, wrap=counted(logs)) as server:
        saga_id = await server.begin()
        for number in range(20):
            await server.call("reserve", saga_id, item=str(number))
        before = logs[0].woken
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []
    assert logs[0].woken - before < 5


async def test_a_rollback_that_waits_looks_again_when_another_process_appends(world: World, database: Path) -> None:
    logs: list[CountedWakes] = []
    clock = ManualClock()
    world.plan(release=["err_before", "ok"])
    async with (
        served(database, clock=clock, wrap=counted(logs)) as server,
        served(database) as other,
    ):
        reply = await server.call("reserve", item="a")
        async with anyio.create_task_group() as calls:
            calls.start_soon(server.abort, reply.saga_id)
            await clock.asleep_for(0.05)
            for _ in range(3):  # what came before it waited is behind it then
                before = logs[0].loads
                await other.begin()
                await eventually(lambda before=before: logs[0].loads > before)
            clock.advance(0.06)
            await server.until(reply.saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert len(world.sent("release")) == 2
