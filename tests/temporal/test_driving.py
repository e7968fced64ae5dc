"""Sagas are driven to rest by workers of a real Temporal server (DESIGN.md section 7; SEMANTICS.md S12.3)."""

from __future__ import annotations

import contextlib

import anyio
import pytest
import temporalio.worker._worker
from structlog.testing import capture_logs
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError
from tests.temporal.served import Realm
from tests.world.reading import World
from tests.world.server import ME, Server, eventually

from saga_mcp.domain.attention import items
from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.person_decisions import retry
from saga_mcp.domain.values import ItemKind, Phase, StepState
from saga_mcp.engine.clock import SystemClock
from saga_mcp.engine.drivers.temporal.driver import TemporalDriver
from saga_mcp.engine.drivers.temporal.errands import NotOurs
from saga_tools import ToolRegistry

pytestmark = pytest.mark.timeout(120)


def driver_of(server: Server) -> TemporalDriver:
    driver = server.engine._driver  # pyright: ignore[reportPrivateUsage]  # a worker's turn, without Temporal's say
    assert isinstance(driver, TemporalDriver)
    return driver


async def reserved(server: Server, *things: str) -> str:
    saga_id = await server.begin()
    for item in things:
        await server.call("reserve", saga_id, item=item)
    return saga_id


async def test_an_abort_of_three_steps_is_driven_by_a_worker(realm: Realm, world: World) -> None:
    async with realm.serving() as server, realm.working() as worker:
        saga_id = await reserved(server, "a", "b", "c")
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATED
        saga = await server.engine.saga(saga_id)
        assert saga.driver == worker.owner
    assert world.order == ["reserve(a)", "reserve(b)", "reserve(c)", "release(c)", "release(b)", "release(a)"]


async def test_a_worker_begins_without_holding_up_its_process(
    realm: Realm, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left to itself the SDK hashes every loaded module; calls of the process waited for that, once too long."""

    def hash_all_modules(*, memoize: bool = True) -> str:
        raise AssertionError(memoize)

    monkeypatch.setattr(temporalio.worker._worker, "load_default_build_id", hash_all_modules)
    async with realm.serving() as server, realm.working():
        saga_id = await reserved(server, "a")
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []


async def test_a_dead_letter_waits_for_a_person_whose_retry_wakes_the_worker(realm: Realm, world: World) -> None:
    """The workflow has ended meanwhile: what waits for a person costs Temporal nothing."""
    world.plan(release=["give_up", "ok"])
    async with realm.serving() as server, realm.working():
        saga_id = await reserved(server, "a")
        saga = await server.abort(saga_id)
        [item] = items(saga)
        assert item.kind is ItemKind.DEAD_LETTER
        assert world.standing == ["reserve(a)"]
        flow = await realm.workflow(saga_id)
        await flow.result()
        await server.engine.decide_item(
            saga_id, lambda saga, driving: retry(saga, 1, by="ada", note="it is back", driving=driving)
        )
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []
    assert len({line.undo_key for line in world.sent("release")}) == 1


async def test_a_failed_step_is_undone_by_a_worker_before_its_reply(realm: Realm, world: World) -> None:
    async with realm.serving() as server, realm.working():
        saga_id = await reserved(server, "a")
        reply = await server.call("reserve", saga_id, item="b", mode="err_before")
        assert reply.saga is not None
        assert (reply.code, reply.saga.phase) == ("step_failed", Phase.COMPENSATED)
    assert world.order == ["reserve(a)", "release(a)"]


class _Patient(SystemClock):
    """Waits for two seconds between two attempts."""

    def jitter(self, longest_s: float) -> float:
        del longest_s
        return 2.0


@pytest.mark.slow
async def test_a_back_off_is_a_timer_of_temporal_that_another_worker_takes_up(realm: Realm, world: World) -> None:
    world.plan(release=["err_before", "ok"])
    async with realm.serving(reply_within_s=0.1) as server:
        async with realm.working(clock=_Patient()):
            saga_id = await reserved(server, "a")
            await server.abort(saga_id)
            flow = await realm.workflow(saga_id)

            async def waits() -> bool:
                try:
                    history = await flow.fetch_history()
                except RPCError:
                    return False
                return any(event.HasField("timer_started_event_attributes") for event in history.events)

            await eventually(waits)
        async with realm.working(clock=_Patient()) as second:
            assert len(world.sent("release")) == 1
            assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
            assert (await server.engine.saga(saga_id)).driver == second.owner
    assert len(world.sent("release")) == 2


async def test_many_wake_ups_from_many_processes_are_one_workflow_and_one_rollback(realm: Realm, world: World) -> None:
    world.plan(release=["hang_before"])
    async with realm.serving(reply_within_s=0.1) as one, realm.serving() as two, realm.working():
        saga_id = await reserved(one, "a", "b")
        await one.abort(saga_id)
        await eventually(lambda: len(world.sent("release")) == 1)
        for server in (one, two) * 20:
            await driver_of(server).wake(saga_id)
        await eventually(lambda: not driver_of(one)._wake_ups._due and not driver_of(two)._wake_ups._due)  # pyright: ignore[reportPrivateUsage]  # all are out
        world.go()
        assert (await one.rest(saga_id)).phase is Phase.COMPENSATED
        flow = await realm.workflow(saga_id)
        await flow.result()
        assert (await flow.describe()).status is WorkflowExecutionStatus.COMPLETED
        await eventually(lambda: _is(realm, saga_id, 1))
    assert [line.args["item"] for line in world.sent("release")] == ["b", "a"]


async def _is(realm: Realm, saga_id: str, runs: int) -> bool:
    return await realm.runs(saga_id) == runs


async def test_open_untroubled_sagas_cost_temporal_nothing(realm: Realm, world: World) -> None:
    async with realm.serving(recovery_every_s=0.02) as server, realm.working(recovery_every_s=0.02):
        for number in range(100):
            await reserved(server, f"{number}")
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve", None, item="slow", mode="hang_before"))
            await eventually(lambda: len(world.sent("reserve")) == 101)
            await anyio.sleep(0.3)  # many scans, which find it busy
            world.go()
        await server.commit((await server.engine.open_sagas(caller=ME))[5].id)
        saga_id = await reserved(server, "x")
        await server.abort(saga_id)
        await eventually(lambda: _is(realm, "", 1))


async def test_a_step_of_a_dead_server_is_undone_by_a_worker(realm: Realm, world: World) -> None:
    """Nobody has told Temporal: the workers' scan finds it in the log."""
    async with realm.working():
        async with realm.serving() as server:
            saga_id = await reserved(server, "a")
            with anyio.CancelScope() as request:
                async with anyio.create_task_group() as call:
                    call.start_soon(lambda: server.call("reserve", saga_id, item="b", mode="hang_after"))
                    await eventually(lambda: len(world.did("reserve")) == 2)
                    request.cancel()
        async with realm.serving() as other:
            saga = await other.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
            assert saga.cause == "step_failed:2"
    assert world.standing == []


async def test_a_worker_sends_nothing_while_another_ones_undo_may_run(realm: Realm, world: World) -> None:
    """Losing a heartbeat is not death: Temporal may give a saga away whose undo is still on its way."""
    world.plan(release=["hang_before"])
    async with realm.serving(reply_within_s=0.1) as server, realm.working() as first:
        saga_id = await reserved(server, "a", "b")
        await server.abort(saga_id)
        await eventually(lambda: len(world.sent("release")) == 1)
        async with realm.working() as second:
            before = await server.log.history(saga_id)
            with pytest.raises(NotOurs, match=first.owner):
                await driver_of(second)._errands.take_turn(saga_id, {})  # pyright: ignore[reportPrivateUsage]  # see above
            assert await server.log.history(saga_id) == before
            world.go()
            assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert [line.args["item"] for line in world.sent("release")] == ["b", "a"]


async def test_a_turn_that_temporal_has_given_up_goes_on_and_is_waited_for(realm: Realm, world: World) -> None:
    """The activity only waits for its turn: its cancellation ends the wait, and nothing of the rollback."""
    world.plan(release=["hang_before"])
    async with realm.serving(reply_within_s=0.1) as server, realm.working() as worker:
        errands = driver_of(worker)._errands  # pyright: ignore[reportPrivateUsage]  # see above
        saga_id = await reserved(server, "a")
        async with anyio.create_task_group() as activities:
            await server.abort(saga_id)
            await eventually(lambda: len(world.sent("release")) == 1)
            activities.start_soon(lambda: errands.take_turn(saga_id, {}))
            await eventually(lambda: errands._going[saga_id].ended.statistics().tasks_waiting == 2)  # pyright: ignore[reportPrivateUsage]  # see above
            activities.cancel_scope.cancel()
        assert (await server.engine.saga(saga_id)).step(1).state is StepState.COMPENSATING
        world.go()
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert len(world.sent("release")) == 1


async def test_a_worker_sends_a_retriable_step_of_a_dead_server_again_with_the_same_key(
    realm: Realm, world: World
) -> None:
    world.plan(notify=["hang_before", "ok"])
    async with realm.working() as worker:
        async with realm.serving() as server:
            saga_id = await server.begin()
            await server.call("send_mail", saga_id, to="ada")
            with anyio.CancelScope() as request:
                async with anyio.create_task_group() as call:
                    call.start_soon(lambda: server.call("notify", saga_id, to="bob"))
                    await eventually(lambda: len(world.sent("notify")) == 1)
                    request.cancel()
        await worker.until(saga_id, lambda saga: saga.step(2).state is StepState.SUCCEEDED)
    assert len(world.did("notify")) == 1
    assert len({line.key for line in world.sent("notify")}) == 1


@pytest.mark.slow
async def test_a_log_that_is_away_for_a_while_puts_a_turn_off(realm: Realm, world: World) -> None:
    async with realm.serving() as server, realm.working() as worker:
        rounds = driver_of(worker)._errands.rounds  # pyright: ignore[reportPrivateUsage]  # see above
        look, away = rounds.look, [2]

        async def unlucky(saga_id: str, course: object) -> object:
            if away[0]:
                away[0] -= 1
                raise LogUnavailable("planned")
            return await look(saga_id, course)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # as it came

        rounds.look = unlucky  # type: ignore[method-assign,assignment]  # pyright: ignore[reportAttributeAccessIssue]  # for this test
        saga_id = await reserved(server, "a")
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []
    assert away == [0]


async def test_the_driving_moves_from_a_living_worker_to_the_one_whose_turn_it_is(realm: Realm, world: World) -> None:
    world.plan(release=["give_up", "ok"])
    async with realm.serving() as server, realm.working() as first:
        saga_id = await reserved(server, "a")
        await server.abort(saga_id)
        assert (await server.engine.saga(saga_id)).driver == first.owner
        async with realm.working() as second:
            await server.engine.decide_item(
                saga_id, lambda saga, driving: retry(saga, 1, by="ada", note="", driving=driving)
            )
            with contextlib.suppress(NotOurs):  # the first one may have been given the turn already
                await driver_of(second)._errands.take_turn(saga_id, {})  # pyright: ignore[reportPrivateUsage]  # see above
            await server.rest(saga_id)
            assert (await server.history(saga_id)).count("UndoSucceeded") == 1
    assert len(world.did("release")) == 1


@pytest.mark.slow
async def test_a_worker_that_lacks_a_tool_leaves_the_saga_to_one_that_has_it(realm: Realm, world: World) -> None:
    async with realm.serving(reply_within_s=0.1) as server:
        saga_id = await reserved(server, "a")
        with capture_logs() as said:
            async with realm.working(tools=ToolRegistry()):
                await eventually(lambda: any(each["event"] == "tools_missing" for each in said))
        [missing] = [each["sagas_by_tool"] for each in said if each["event"] == "tools_missing"]
        assert missing["ledger.release"] == 1
        async with realm.working(tools=ToolRegistry()) as poor:
            await server.abort(saga_id)
            flow = await realm.workflow(saga_id)

            async def told() -> bool:
                try:
                    [activity] = (await flow.describe()).raw_description.pending_activities
                except (RPCError, ValueError):
                    return False
                return "not available in this config" in activity.last_failure.message

            await eventually(told)
            assert await server.items(saga_id) == ()
            async with realm.working() as rich:
                await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
                assert rich.owner != poor.owner
    assert world.standing == []


async def test_what_no_worker_has_a_tool_for_is_a_persons_in_the_end(realm: Realm, world: World) -> None:
    async with realm.serving(reply_within_s=0.1) as server:
        saga_id = await reserved(server, "a")
        await server.abort(saga_id)
    async with realm.working(tools=ToolRegistry()) as poor:
        await driver_of(poor)._errands.take_turn(saga_id, {}, makes_do=True)  # pyright: ignore[reportPrivateUsage]  # see above
        [item] = await poor.items(saga_id)
        assert item.kind in {ItemKind.DEAD_LETTER, ItemKind.TARGET_CHANGED}
    assert world.sent("release") == []
