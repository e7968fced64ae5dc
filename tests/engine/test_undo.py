"""How a saga is undone: order, attempts, dead letters, parts (SEMANTICS.md S5, S6)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.world.clock import ManualClock, NotingClock
from tests.world.failing import SlowReads
from tests.world.reading import World
from tests.world.server import Server, eventually, served

from saga_mcp.domain.attention import items
from saga_mcp.domain.errors import SagaAborted, SagaClosed
from saga_mcp.domain.person_decisions import exempt, resolve_undone, retry
from saga_mcp.domain.values import ItemKind, OnUndoFailure, Phase, StepState
from saga_mcp.log.port import SagaLog


async def _decide(server: Server, saga_id: str, step: int, verb: str) -> None:
    decision = {"retry": retry, "exempt": exempt, "undone": resolve_undone}[verb]
    await server.engine.decide_item(
        saga_id, lambda saga, driving: decision(saga, step, by="ada", note="looked", driving=driving)
    )


# --- abort (S5.1) ---------------------------------------------------------------------------------------------------


@pytest.mark.case(34)
async def test_undo_never_overtakes_do(world: World, database: Path) -> None:
    """The abort closes the saga at once, and waits for what runs."""
    async with served(database, reply_within_s=0.2) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve", saga_id, item="a", mode="hang_before"))
            await eventually(lambda: len(world.sent("reserve")) == 1)
            saga = await server.abort(saga_id)
            assert (saga.phase, saga.running) == (Phase.COMPENSATING, 1)
            with pytest.raises(SagaAborted):
                await server.call("reserve", saga_id, item="b")
            assert world.sent("release") == []
            world.go()
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert world.order == ["reserve(a)", "release(a)"]


@pytest.mark.case(37)
async def test_abort_waits_for_a_thread_whose_caller_has_gone(world: World, database: Path) -> None:
    """A thread cannot be stopped."""
    async with served(database) as server:
        saga_id = await server.begin()
        with anyio.CancelScope() as request:
            async with anyio.create_task_group() as both:
                both.start_soon(lambda: server.call("hold", saga_id, item="a", mode="hang_before"))
                await eventually(lambda: len(world.sent("hold")) == 1)
                request.cancel()
        with anyio.CancelScope() as request:
            async with anyio.create_task_group() as both:
                both.start_soon(server.abort, saga_id)
                await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATING)
                request.cancel()
        assert world.did() == []
        world.go()
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert world.order == ["hold(a)", "unhold(a)"]


@pytest.mark.case(92)
async def test_steps_are_undone_in_the_reverse_of_the_order_in_which_they_ended(world: World, database: Path) -> None:
    """With overlapping steps in the middle."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="1")
        async with anyio.create_task_group() as calls:
            for item, delay in (("2", "0.15"), ("3", "0.05"), ("4", "0.1")):
                calls.start_soon(partial(server.call, "reserve", saga_id, item=item, mode=delay))
        await server.call("reserve", saga_id, item="5")
        world.plan(release=["0.05", "0", "0.02", "0", "0.03"])
        await server.abort(saga_id)
    done = [name.replace("reserve", "release") for name in world.order if name.startswith("reserve")]
    assert done == ["release(1)", "release(3)", "release(4)", "release(2)", "release(5)"]
    assert [name for name in world.order if name.startswith("release")] == done[::-1]
    pairs = [line.event for line in world.lines if line.tool == "release"]
    assert pairs == ["sent", "did"] * 5


@pytest.mark.case(33)
async def test_an_abort_that_arrives_first_keeps_the_step_out(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.abort(saga_id)
        with pytest.raises(SagaAborted):
            await server.call("reserve", saga_id, item="a")
    assert world.sent() == []


@pytest.mark.case(95)
async def test_abort_after_commit_changes_nothing(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
        await server.commit(reply.saga_id)
        with pytest.raises(SagaClosed):
            await server.abort(reply.saga_id)
        assert (await server.commit(reply.saga_id)).phase is Phase.COMMITTED
    assert world.standing == ["reserve(a)"]


@pytest.mark.case(51)
async def test_an_undo_is_told_why_and_with_which_exact_values(world: World, database: Path) -> None:
    """saga_tools.Undo.cause."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("reserve", saga_id, item="b", mode="err_before")
        other = await server.call("reserve", item="c")
        await server.abort(other.saga_id)
    first, second = world.did("release")
    assert (first.args["cause"], first.args["id"]) == ("step_failed:2", 2**53 + 1)
    assert second.args["cause"] == "agent"


# --- attempts (S6.5) ------------------------------------------------------------------------------------------------


@pytest.mark.case(61, 62)
@pytest.mark.parametrize("how", ["err_before", "fail_before"])
async def test_an_undo_that_keeps_failing_is_a_dead_letter_after_its_attempts(
    world: World, database: Path, how: str
) -> None:
    """Exactly four calls, growing gaps, one key, and others go on."""
    world.plan(release=[how])
    clock = NotingClock()
    async with served(database, clock=clock) as server:
        reply = await server.call("reserve", item="a")
        other = await server.call("hold", item="b")
        saga = await server.abort(reply.saga_id)
        (item,) = await server.items(reply.saga_id)
        assert (item.kind, item.step, item.tool) == (ItemKind.DEAD_LETTER, 1, "ledger.reserve")
        assert "planned" in item.message
        assert (saga.phase, await server.state(reply.saga_id)) == (Phase.COMPENSATING, "needs_attention")
        assert (await server.abort(other.saga_id)).phase is Phase.COMPENSATED
    assert len(world.sent("release")) == 4
    assert clock.drawn == [0.05, 0.1, 0.2]
    assert {line.undo_key for line in world.sent("release")} == {world.sent("release")[0].undo_key}


async def test_attempts_are_counted_across_restarts(world: World, database: Path) -> None:
    """S6.5."""
    world.plan(release=["err_before", "err_before", "hang_before"])
    async with served(database, reply_within_s=0.05) as server:
        reply = await server.call("reserve", item="a")
        await server.abort(reply.saga_id)
        await eventually(lambda: len(world.sent("release")) == 3)
    world.plan(release=["err_before"])
    async with served(database) as server:
        await server.rest(reply.saga_id)
        (item,) = await server.items(reply.saga_id)
        assert item.kind is ItemKind.DEAD_LETTER
    assert len(world.sent("release")) == 4


async def test_a_restart_after_the_last_attempt_asks_a_person_at_once(world: World, database: Path) -> None:
    """No back-off before a dead letter: the second server's time stands still."""
    world.plan(release=["err_before", "err_before", "err_before", "hang_before"])
    async with served(database, reply_within_s=0.05) as server:
        reply = await server.call("reserve", item="a")
        await server.abort(reply.saga_id)
        await eventually(lambda: len(world.sent("release")) == 4)
    async with served(database, clock=ManualClock()) as server:
        await server.until(reply.saga_id, lambda saga: bool(items(saga)))
        (item,) = await server.items(reply.saga_id)
        assert item.kind is ItemKind.DEAD_LETTER
    assert len(world.sent("release")) == 4


async def test_between_attempts_nothing_is_sent_before_its_time(world: World, database: Path) -> None:
    clock = ManualClock()
    world.plan(release=["err_before", "ok"])
    async with served(database, clock=clock, reply_within_s=1000.0, recovery_every_s=7.0) as server:
        reply = await server.call("reserve", item="a")
        async with anyio.create_task_group() as calls:
            calls.start_soon(server.abort, reply.saga_id)
            await clock.asleep_for(0.05)
            clock.advance(0.04)
            await anyio.lowlevel.checkpoint()
            assert len(world.sent("release")) == 1
            clock.advance(0.011)
            await server.until(reply.saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert len(world.sent("release")) == 2


@pytest.mark.case(65)
@pytest.mark.parametrize(
    ("policy", "undone"),
    [(OnUndoFailure.HALT, ["release(3)"]), (OnUndoFailure.CONTINUE, ["release(3)", "release(1)"])],
)
async def test_a_stuck_undo_halts_the_older_ones_or_does_not(
    world: World, database: Path, policy: OnUndoFailure, undone: list[str]
) -> None:
    """S5.4: either way everything resumes."""
    world.plan(unhold=["give_up"])
    async with served(database, on_undo_failure=policy) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="1")
        await server.call("hold", saga_id, item="2")
        await server.call("reserve", saga_id, item="3")
        await server.abort(saga_id)
        assert [name for name in world.order if name.startswith("release")] == undone
        assert await server.state(saga_id) == "needs_attention"
        world.plan(unhold=["ok"])
        await _decide(server, saga_id, 2, "retry")
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []


@pytest.mark.case(62)
@pytest.mark.parametrize(
    ("verb", "state", "stands"),
    [("undone", StepState.COMPENSATED, ["hold(b)"]), ("exempt", StepState.EXEMPT, ["hold(b)"])],
)
async def test_a_person_settles_a_dead_letter_and_the_rest_is_undone(
    world: World, database: Path, verb: str, state: StepState, stands: list[str]
) -> None:
    world.plan(unhold=["give_up"])
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("hold", saga_id, item="b")
        await server.abort(saga_id)
        await _decide(server, saga_id, 2, verb)
        saga = await server.rest(saga_id)
        assert (saga.phase, saga.step(2).state, saga.step(2).person) == (Phase.COMPENSATED, state, "ada")
    assert world.standing == stands


async def test_what_a_person_decides_while_the_driver_is_about_to_leave_is_not_missed(
    world: World, database: Path
) -> None:
    """The driver has just read that nothing is due; by the time it acts on that, something is."""
    logs: list[SlowReads] = []

    def slow(log: SagaLog) -> SagaLog:
        logs.append(SlowReads(log))
        return logs[0]

    world.plan(release=["give_up", "ok"])
    async with served(database, wrap=slow, recovery_every_s=1000.0) as server:
        reply = await server.call("reserve", item="a")
        logs[0].holds = lambda saga: any(item.kind is ItemKind.DEAD_LETTER for item in items(saga))
        async with anyio.create_task_group() as calls:
            calls.start_soon(server.abort, reply.saga_id)
            await logs[0].held.wait()
            await _decide(server, reply.saga_id, 1, "retry")
            logs[0].go.set()
            await server.until(reply.saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.standing == []


async def test_an_undo_that_only_a_person_can_do_halts_and_resumes(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("post", saga_id, to="bob")
        await server.abort(saga_id)
        (item,) = await server.items(saga_id)
        assert (item.kind, item.urgency, item.step) == (ItemKind.MANUAL_UNDO, "high", 2)
        assert "bob" in item.message
        assert world.sent("release") == []
        await _decide(server, saga_id, 2, "undone")
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == ["post(bob)"]


@pytest.mark.case(63)
@pytest.mark.parametrize(
    "loud", ["SystemExit", "KeyboardInterrupt", "CancelledError", "ExceptionGroup", "RecursionError", "GeneratorExit"]
)
@pytest.mark.parametrize(("tool", "undo"), [("reserve", "release"), ("hold", "unhold")])
async def test_whatever_an_undo_raises_counts_as_an_attempt_and_the_engine_lives(
    world: World, database: Path, tool: str, undo: str, loud: str
) -> None:
    world.plan(**{undo: [loud, "ok"]})
    async with served(database) as server:
        reply = await server.call(tool, item="a")
        saga = await server.abort(reply.saga_id)
        assert saga.phase is Phase.COMPENSATED
    assert len(world.sent(undo)) == 2


async def test_an_undo_of_unknown_outcome_is_sent_again_only_where_that_is_harmless(
    world: World, database: Path
) -> None:
    """S6.4: `refund` is not idempotent."""
    world.plan(release=["err_after", "ok"], refund=["err_after", "ok"])
    async with served(database) as server:
        again = await server.call("reserve", item="a")
        assert (await server.abort(again.saga_id)).phase is Phase.COMPENSATED
        once = await server.call("charge", cents=5)
        await server.abort(once.saga_id)
        (item,) = await server.items(once.saga_id)
        assert item.kind is ItemKind.UNDO_IN_DOUBT
    assert (len(world.sent("release")), len(world.sent("refund"))) == (2, 1)


async def test_a_late_answer_of_an_undo_counts(world: World, database: Path) -> None:
    """S3.6."""
    clock = ManualClock()
    world.plan(refund=["hang_before"])
    async with served(database, clock=clock, reply_within_s=1.0) as server:
        reply = await server.call("charge", cents=5)
        async with anyio.create_task_group() as calls:
            calls.start_soon(server.abort, reply.saga_id)
            await clock.asleep_for(30)
            clock.advance(30)
        await server.until(reply.saga_id, lambda saga: saga.step(1).parts[0].state == "undo_in_doubt")  # type: ignore[index]  # it has one
        world.go()
        await server.until(reply.saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert len(world.sent("refund")) == 1


# --- parts (S6.2) ---------------------------------------------------------------------------------------------------


@pytest.mark.case(18)
async def test_parts_that_a_call_registered_are_undone_newest_first(world: World, database: Path) -> None:
    """The call itself failed half way."""
    async with served(database) as server:
        reply = await server.call("reserve_many", items=["a", "b", "c"], mode="fail_before")
        assert await server.state(reply.saga_id) == "compensated"
    assert world.standing == []
    undone = [name for name in world.order if not name.startswith("reserve")]
    assert undone == ["close_order(['a', 'b', 'c'])", "free_one(c)", "free_one(b)", "free_one(a)"]


async def test_after_a_stop_the_first_part_not_done_is_resumed(world: World, database: Path) -> None:
    world.plan(free_one=["ok", "hang_before"])
    async with served(database, reply_within_s=0.1) as server:
        reply = await server.call("reserve_many", items=["a", "b", "c"])
        await server.abort(reply.saga_id)
        await eventually(lambda: len(world.sent("free_one")) == 2)
    world.go()
    async with served(database) as server:
        assert (await server.rest(reply.saga_id)).phase is Phase.COMPENSATED
    assert [line.args["item"] for line in world.did("free_one")] == ["c", "b", "a"]
    assert len(world.sent("close_order")) == 1
    assert all(len(keys) == 1 for keys in world.undo_keys.values())


# --- results that are hard to keep (CASES C54) ----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["decimal", "datetime", "bytes", "set", "big"])
async def test_a_result_that_json_does_not_know_is_kept_and_undone(world: World, database: Path, what: str) -> None:
    async with served(database) as server:
        reply = await server.call("measure", what=what)
        assert reply.code == ""
        assert (await server.abort(reply.saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []


async def test_a_result_that_cannot_be_kept_is_undone_by_nobody_but_a_person(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("measure", what="nan")
        assert reply.code == ""
        await server.abort(reply.saga_id)
        saga = await server.rest(reply.saga_id)
        assert saga.step(1).parts is None
    assert len(world.standing) == 1


# --- tools that are gone (CASES C23) --------------------------------------------------------------------------------


@pytest.mark.case(23)
async def test_an_undo_that_is_not_available_is_a_dead_letter_until_it_is_back(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
        server.catalogue._undoers.pop("ledger.release")  # pyright: ignore[reportPrivateUsage]  # a config without it
        await server.abort(reply.saga_id)
        (item,) = await server.items(reply.saga_id)
        assert (item.kind, "not available" in item.message) == (ItemKind.DEAD_LETTER, True)
    async with served(database) as server:
        await _decide(server, reply.saga_id, 1, "retry")
        assert (await server.rest(reply.saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []
