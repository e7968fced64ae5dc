"""What becomes of a forward action (SEMANTICS.md S3, S4)."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest
from tests.world.clock import ManualClock
from tests.world.reading import World
from tests.world.server import eventually, served

from saga_mcp.domain.errors import CommitRefused, SagaAborted
from saga_mcp.domain.values import OnError, Phase, StepState
from saga_mcp.engine.port import UnknownTool
from saga_mcp.tools.running import ToolThreads
from saga_mcp.tools.unsent import InvalidArguments


async def test_a_step_is_kept_by_commit(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
        saga = await server.commit(reply.saga_id)
    assert (reply.code, saga.phase) == ("", Phase.COMMITTED)
    assert world.standing == ["reserve(a)"]


async def test_a_step_is_undone_by_abort(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
        saga = await server.abort(reply.saga_id)
    assert saga.phase is Phase.COMPENSATED
    assert world.order == ["reserve(a)", "release(a)"]


@pytest.mark.case(26)
async def test_a_failing_step_undoes_what_came_before_it(world: World, database: Path) -> None:
    """The cause stays readable."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        reply = await server.call("reserve", saga_id, item="b", mode="err_before")
        assert reply.code == "step_failed"
        assert reply.answer is not None
        assert "planned: nothing was done" in reply.answer.text
        saga = await server.engine.saga(saga_id)
        assert (saga.phase, saga.cause) == (Phase.COMPENSATED, "step_failed:2")
        assert "planned: nothing was done" in saga.step(2).error
    assert world.order == ["reserve(a)", "release(a)"]


@pytest.mark.case(17, 19)
async def test_a_step_that_failed_after_its_effect_is_undone_first(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("reserve", saga_id, item="b", mode="err_after")
        assert await server.state(saga_id) == "compensated"
    assert world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


@pytest.mark.case(78)
@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("reserve", {}, InvalidArguments),
        ("reserve", {"item": "a", "saga": "x"}, InvalidArguments),
        ("reserv", {"item": "a"}, UnknownTool),
    ],
)
async def test_what_no_tool_accepts_costs_nothing(
    world: World, database: Path, tool: str, arguments: dict[str, object], error: type[Exception]
) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        with pytest.raises(error):
            await server.call(tool, saga_id, **arguments)
        saga = await server.engine.saga(saga_id)
        assert (saga.phase, len(saga.steps)) == (Phase.ACTIVE, 0)
    assert world.sent() == []


# --- time limits (S3.3, S3.6) ---------------------------------------------------------------------------------------


@pytest.mark.case(2)
async def test_a_time_limit_ends_the_wait_and_not_the_call(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1000.0, probe_for_s=100.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                reply = await server.call("reserve", saga_id, item="a", mode="hang_before")
                assert reply.code == "outcome_unknown"

            calls.start_soon(call)
            await clock.asleep_for(30)
            clock.advance(30)
        saga = await server.engine.saga(saga_id)
        assert (saga.step(1).state, saga.step(1).running) == (StepState.IN_DOUBT, True)
        world.go()
        saga = await server.until(saga_id, lambda saga: not saga.step(1).running)
        assert (saga.phase, saga.step(1).state) == (Phase.ACTIVE, StepState.SUCCEEDED)
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert world.order == ["reserve(a)"]


@pytest.mark.usefixtures("world")
async def test_commit_is_refused_while_a_step_is_unknown(database: Path) -> None:
    async with served(database, on_error=OnError.HOLD) as server:
        reply = await server.call("wire", cents=5, mode="err_after")
        assert reply.code == "outcome_unknown"
        with pytest.raises(CommitRefused, match=r"step 1 ledger\.wire is unknown"):
            await server.commit(reply.saga_id)
        assert await server.state(reply.saga_id) == "needs_attention"


async def test_without_an_answer_the_policy_aborts_and_waits_for_the_call(world: World, database: Path) -> None:
    """S4.2: `probe_for_s` after the time limit; the undo still does not overtake the call."""
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1000.0, probe_for_s=77.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("hold", saga_id, item="a", mode="hang_before"))
            await clock.asleep_for(30)
            clock.advance(30)
            await clock.asleep_for(77)
            clock.advance(77)
            await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATING)
            assert world.did() == []
            world.go()
        saga = await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
        assert saga.cause == "step_failed:1"
    assert world.order == ["hold(a)", "unhold(a)"]


async def test_a_call_that_can_be_stopped_is_stopped_at_its_hard_deadline(world: World, database: Path) -> None:
    """Then it has ended, as in a process that was killed, and its pair may be undone blindly (docs/decisions.md 30)."""
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1000.0, probe_for_s=5.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve", saga_id, item="a", mode="hang_after"))
            await clock.asleep_for(30)
            clock.advance(30)
            await clock.asleep_for(270)
            clock.advance(270)
        saga = await server.rest(saga_id)
        assert (saga.phase, saga.step(1).state) == (Phase.COMPENSATED, StepState.COMPENSATED)
    assert world.order == ["reserve(a)", "release(a)"]


async def test_a_thread_past_its_hard_deadline_is_for_a_person_until_it_returns(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1000.0, probe_for_s=5.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("hold", saga_id, item="a", mode="hang_after"))
            await clock.asleep_for(30)
            clock.advance(30)
        await clock.asleep_for(270)
        clock.advance(270)
        await server.until(saga_id, lambda saga: saga.step(1).overdue)
        (item,) = await server.items(saga_id)
        assert (item.kind, item.step) == ("in_doubt", 1)
        assert world.sent("unhold") == []
        world.go()
        saga = await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
        assert saga.steps[0].state is StepState.COMPENSATED
    assert world.order == ["hold(a)", "unhold(a)"]


async def test_a_call_that_waits_for_a_thread_is_not_sent_past_its_deadline(world: World, database: Path) -> None:
    """It has not begun, so it has ended: what nobody waits for any more must not happen when a thread gets free."""
    clock = ManualClock()
    async with served(database, clock=clock, on_error=OnError.HOLD, reply_within_s=1000.0) as server:
        server.threads.forward = ToolThreads("saga tool", at_most=1)
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("hold", saga_id, item="a", mode="hang_before"))
            await eventually(lambda: len(world.sent("hold")) == 1)
            calls.start_soon(lambda: server.call("hold", saga_id, item="b"))
            await clock.asleep_for(30, sleepers=2)
            clock.advance(30)
        await clock.asleep_for(270, sleepers=2)
        clock.advance(270)
        saga = await server.until(saga_id, lambda saga: saga.step(1).overdue and not saga.step(2).running)
        assert saga.step(2).state is StepState.IN_DOUBT
        world.go()
        await server.until(saga_id, lambda saga: saga.step(1).state is StepState.SUCCEEDED)
        assert (await server.call("hold", saga_id, item="c")).code == ""
    assert world.order == ["hold(a)", "hold(c)"]


# --- retries (S3.2) -------------------------------------------------------------------------------------------------


async def test_an_attempt_without_effect_is_sent_again_with_the_same_key(world: World, database: Path) -> None:
    world.plan(book=["err_before", "err_before", "ok"])
    async with served(database) as server:
        reply = await server.call("book", item="a")
        assert reply.code == ""
        assert (await server.history(reply.saga_id)).count("StepAttempted") == 2
    assert len({line.key for line in world.sent("book")}) == 1
    assert world.order == ["book(a)"]


async def test_after_one_unknown_attempt_a_refusal_proves_nothing(world: World, database: Path) -> None:
    """S3.2: the step stays in doubt, and is undone as one that may have happened."""
    world.plan(book=["err_after", "err_before"])
    async with served(database) as server:
        reply = await server.call("book", item="a")
        assert await server.state(reply.saga_id) == "compensated"
        assert (await server.history(reply.saga_id)).count("StepFellInDoubt") == 1
    assert world.standing == []
    assert len(world.sent("book")) == 3


async def test_a_step_between_two_attempts_is_not_sent_again_once_the_saga_is_aborted(
    world: World, database: Path
) -> None:
    """S4.3."""
    clock = ManualClock()
    world.plan(book=["err_before"])
    async with served(database, clock=clock, reply_within_s=1000.0, recovery_every_s=7.0) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("book", saga_id, item="a"))
            await clock.asleep_for(0.05)
            await server.abort(saga_id)
            clock.advance(0.05)
        assert await server.state(saga_id) == "compensated"
    assert len(world.sent("book")) == 1


# --- on_error (S4) --------------------------------------------------------------------------------------------------


@pytest.mark.case(76)
async def test_on_hold_a_failed_step_keeps_the_saga_open_until_it_is_accepted(world: World, database: Path) -> None:
    async with served(database, on_error=OnError.HOLD) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        reply = await server.call("reserve", saga_id, item="b", mode="err_before")
        assert (reply.code, await server.state(saga_id)) == ("step_failed", "active")
        with pytest.raises(CommitRefused, match=r"accept_failed=\[2\]"):
            await server.commit(saga_id)
        assert (await server.commit(saga_id, accept_failed=(2,))).phase is Phase.COMMITTED
    assert world.standing == ["reserve(a)"]


@pytest.mark.case(76)
async def test_an_undone_saga_refuses_steps_and_commit(world: World, database: Path) -> None:
    """DESIGN.md rule 11."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a", mode="err_before")
        with pytest.raises(SagaAborted):
            await server.call("reserve", saga_id, item="b")
        with pytest.raises(SagaAborted):
            await server.commit(saga_id)
    assert world.did() == []


async def test_a_sibling_of_a_failing_step_ends_by_itself_and_is_undone(world: World, database: Path) -> None:
    """S4.3."""
    async with served(database) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:

            async def sibling() -> None:
                reply = await server.call("reserve", saga_id, item="a", mode="hang_before")
                assert reply.code == ""

            calls.start_soon(sibling)
            await eventually(lambda: len(world.sent("reserve")) == 1)
            calls.start_soon(lambda: server.call("reserve", saga_id, item="b", mode="err_before"))
            await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATING)
            assert world.sent("release") == []
            world.go()
        assert await server.state(saga_id) == "compensated"
    assert world.order == ["reserve(a)", "release(a)"]


@pytest.mark.parametrize(
    "loud", ["SystemExit", "KeyboardInterrupt", "CancelledError", "ExceptionGroup", "RecursionError", "GeneratorExit"]
)
@pytest.mark.parametrize("tool", ["reserve", "hold"])
async def test_whatever_a_tool_raises_the_engine_lives(world: World, database: Path, tool: str, loud: str) -> None:
    """S4.5."""
    async with served(database) as server:
        reply = await server.call(tool, item="a", mode=loud)
        assert await server.state(reply.saga_id) == "compensated"
        assert (await server.call("reserve", item="b")).code == ""
    assert world.standing == ["reserve(b)"]


# --- probes (S3.4) --------------------------------------------------------------------------------------------------


@pytest.mark.case(3)
async def test_a_probe_that_finds_the_effect_settles_the_step(world: World, database: Path) -> None:
    """No abort follows."""
    async with served(database) as server:
        reply = await server.call("charge", cents=5, mode="err_after")
        saga = await server.until(reply.saga_id, lambda saga: saga.step(1).state is StepState.SUCCEEDED)
        assert saga.phase is Phase.ACTIVE
        assert (await server.commit(reply.saga_id)).phase is Phase.COMMITTED
    assert world.standing == ["charge(5)"]


async def test_a_probe_that_finds_nothing_is_believed_only_after_the_call_has_settled(
    world: World, database: Path
) -> None:
    clock = ManualClock()
    async with served(database, clock=clock, reply_within_s=1.0) as server:
        reply = await server.call("charge", cents=5, mode="fail_before")
        await eventually(lambda: len(world.sent("find_charge")) == 1)
        saga = await server.engine.saga(reply.saga_id)
        assert saga.step(1).state is StepState.IN_DOUBT
        await clock.asleep_for(5)
        clock.advance(5)
        saga = await server.until(reply.saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
        assert saga.step(1).state is StepState.FAILED
    assert world.sent("refund") == []


@pytest.mark.slow
@pytest.mark.case(7)
async def test_a_step_that_nobody_can_settle_waits_for_a_person(world: World, database: Path) -> None:
    """S6.8: other steps are undone in order, this one is not undone blindly."""
    world.plan(find_charge=["fail_before"])
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("charge", saga_id, cents=5, mode="err_after")
        saga = await server.rest(saga_id)
        (item,) = await server.items(saga_id)
        assert (item.kind, item.step, saga.phase) == ("in_doubt", 1, Phase.COMPENSATING)
        assert await server.state(saga_id) == "needs_attention"
    assert world.sent("refund") == []


async def test_a_step_on_a_restored_copy_of_the_log_has_a_key_that_no_lost_step_had(
    world: World, database: Path
) -> None:
    """A tool that takes each key once would answer with what it did for the lost one, and do nothing."""
    async with served(database) as server:
        saga_id = (await server.call("reserve", item="a")).saga_id
    shutil.copy(database, database.with_suffix(".copy"))
    async with served(database) as server:
        await server.call("reserve", saga_id, item="lost")
    shutil.copy(database.with_suffix(".copy"), database)
    async with served(database) as server:
        assert (await server.call("reserve", saga_id, item="b")).step == 2
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATED
    assert len({line.key for line in world.sent("reserve")}) == 3
    assert world.standing == ["reserve(lost)"]
