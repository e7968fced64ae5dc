"""A log that does not say, or says wrongly, whether it stored an append (SEMANTICS.md S10.1; DESIGN.md rules 1, 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import anyio
import pytest
from tests.world.failing import DoubtfulLog, Fault, LogAround
from tests.world.reading import World
from tests.world.server import eventually, served

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.events import (
    Event,
    SagaCommitted,
    SagaOpened,
    StepAttempted,
    StepFailed,
    StepIntended,
    StepSucceeded,
    UndoIntended,
    UndoSucceeded,
)
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import fold
from saga_mcp.domain.state import Saga
from saga_mcp.domain.stranded import attempts_of, end_stranded
from saga_mcp.domain.values import StepState
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import AppendUnsettled, SagaLog


def doubting(
    fault: Fault, event: type[Event], *, unreadable: int = 2
) -> tuple[list[DoubtfulLog], Callable[[SagaLog], SagaLog]]:
    logs: list[DoubtfulLog] = []

    def wrap(log: SagaLog) -> SagaLog:
        logs.append(DoubtfulLog(log, fault, event=event, unreadable=unreadable))
        return logs[0]

    return logs, wrap


@pytest.mark.parametrize("event", [StepIntended, StepSucceeded, UndoIntended, UndoSucceeded])
async def test_an_append_that_turns_out_to_be_stored_is_gone_on_from(
    world: World, database: Path, event: type[Event]
) -> None:
    logs, wrap = doubting(Fault.STORED_UNSETTLED, event)
    async with served(database, wrap=wrap) as server:
        saga_id = await server.begin()
        assert [(await server.call("reserve", saga_id, item=item)).code for item in "ab"] == ["", ""]
        assert (await server.abort(saga_id)).phase == "compensated"
    assert logs[0].met
    assert world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_further_attempt_in_doubt_is_sent_at_most_once(world: World, database: Path, fault: Fault) -> None:
    logs, wrap = doubting(fault, StepAttempted)
    world.plan(book=["err_before", "ok"])
    async with served(database, wrap=wrap, on_error="hold") as server:
        saga_id = await server.begin()
        await server.call("book", saga_id, item="a")
        saga = await server.until(saga_id, lambda saga: not saga.running)
        assert saga.step(1).state is (StepState.FAILED if fault is Fault.STORED_DENIED else StepState.SUCCEEDED)
    assert logs[0].met
    assert len(world.sent()) == (1 if fault is Fault.STORED_DENIED else 2)


@pytest.mark.parametrize("event", [StepIntended, UndoIntended])
async def test_an_intent_that_turns_out_not_to_be_stored_sends_nothing(
    world: World, database: Path, event: type[Event]
) -> None:
    _, wrap = doubting(Fault.LOST_UNSETTLED, event)
    async with served(database, wrap=wrap) as server:
        saga_id = await server.begin()
        if event is StepIntended:
            with pytest.raises(LogUnavailable, match="nothing was stored and nothing was sent"):
                await server.call("reserve", saga_id, item="a")
            assert world.sent() == []
        await server.call("reserve", saga_id, item="b")
        await server.abort(saga_id)
        await eventually(lambda: world.standing == [])
    assert world.order == ["reserve(b)", "release(b)"]


async def test_a_commit_whose_fate_is_unknown_is_said_to_be_so_and_can_be_asked_for_again(
    world: World, database: Path
) -> None:
    logs, wrap = doubting(Fault.STORED_UNSETTLED, SagaCommitted, unreadable=1_000_000)
    async with served(database, wrap=wrap, reply_within_s=0.2) as server:
        reply = await server.call("reserve", item="a")
        await server.until(reply.saga_id, lambda saga: not saga.running)
        with pytest.raises(AppendUnsettled):
            await server.commit(reply.saga_id)
        assert logs[0].met
        assert (await server.commit(reply.saga_id)).phase == "committed"
    assert world.order == ["reserve(a)"]


async def test_a_saga_whose_opening_is_in_doubt_is_not_opened_twice(world: World, database: Path) -> None:
    _, wrap = doubting(Fault.STORED_UNSETTLED, SagaOpened)
    async with served(database, wrap=wrap) as server:
        reply = await server.call("reserve", item="a")
        assert reply.code == ""
        assert [row.id for row in await server.log.sagas("ledger")] == [reply.saga_id]
    assert world.order == ["reserve(a)"]


async def test_a_stored_intent_that_the_log_denies_ends_as_not_sent(world: World, database: Path) -> None:
    """The caller was told that nothing was sent: so nothing is, and the saga does not wait for it."""
    _, wrap = doubting(Fault.STORED_DENIED, StepIntended)
    async with served(database, wrap=wrap, on_error="hold") as server:
        saga_id = await server.begin()
        with pytest.raises(LogUnavailable):
            await server.call("reserve", saga_id, item="a")
        step = (await server.until(saga_id, lambda saga: not saga.running)).step(1)
        assert (step.state, step.error) == (StepState.FAILED, "not sent: this server lost track of it before")
        assert (await server.commit(saga_id, accept_failed=(1,))).phase == "committed"
    assert world.sent() == []


@pytest.mark.parametrize("event", [UndoIntended, UndoSucceeded])
async def test_a_stored_undo_intent_that_the_log_denies_is_sent_after_all(
    world: World, database: Path, event: type[Event]
) -> None:
    """The second case stores the next part's intent in the same append."""
    _, wrap = doubting(Fault.STORED_DENIED, event)
    async with served(database, wrap=wrap) as server:
        saga_id = await server.begin()
        for item in "ab":
            await server.call("reserve", saga_id, item=item)
        await server.abort(saga_id)
        assert (await server.rest(saga_id)).phase == "compensated"
    assert world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


async def test_what_was_sent_and_then_lost_track_of_is_in_doubt(world: World, database: Path) -> None:
    """DESIGN.md rule 2: a fault of ours between the call and its outcome proves nothing about the effect."""
    async with served(database, on_error="hold") as server:
        saga_id = await server.begin()
        with patch.object(Workshop, "landing", side_effect=ZeroDivisionError):
            reply = await server.call("reserve", saga_id, item="a")
        assert (reply.code, reply.step) == ("outcome_unknown", 1)
        step = (await server.until(saga_id, lambda saga: not saga.running)).step(1)
        assert step.state is StepState.IN_DOUBT
        assert not step.end_known
    assert world.order == ["reserve(a)"]


async def test_an_attempt_that_went_on_since_it_was_found_is_left_alone(world: World, database: Path) -> None:
    """Whoever looks after stranded attempts decides on the state of then, not on the one it found them in."""
    world.plan(reserve=["hang_before"])
    async with served(database) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(partial(server.call, "reserve", saga_id, item="a"))
            await server.until(saga_id, lambda saga: saga.running == 1)
            world.go()
        saga = fold(Saga(id=saga_id), [record.event for record in (await server.log.history(saga_id))[:2]])
        (attempt,) = attempts_of(saga, server.owner)
        ended = await server.engine.saga(saga_id)
        driving = Driving(driver=server.owner, bind=lambda _: BoundUndo())
        assert end_stranded(ended, frozenset({attempt}), frozenset(), server.owner, driving) == ()
        other = replace(attempt, number=2)
        assert end_stranded(saga, frozenset({other}), frozenset(), server.owner, driving) == ()
        assert end_stranded(saga, frozenset({attempt}), frozenset(), "another", driving) == ()
        assert end_stranded(saga, frozenset({attempt}), frozenset(), server.owner, driving)[0] == StepFailed(step=1)
    assert world.order == ["reserve(a)"]


class SlowLook(LogAround):
    """The look after stranded attempts begins, and reads nothing before `go`."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.began = anyio.Event()
        self.go = anyio.Event()
        self.looks = 0

    async def load(self, saga_id: str) -> Saga:
        if "Stranded" not in (anyio.get_current_task().name or ""):
            return await self.inner.load(saga_id)
        self.began.set()
        await self.go.wait()
        self.looks += 1
        return await self.inner.load(saga_id)


async def test_an_attempt_that_began_since_the_look_did_is_left_to_its_task(world: World, database: Path) -> None:
    logs: list[SlowLook] = []

    def slow(log: SagaLog) -> SagaLog:
        logs.append(SlowLook(log))
        return logs[0]

    world.plan(reserve=["ok", "hang_before", "ok"])
    async with served(database, wrap=slow) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        with anyio.fail_after(5):
            await logs[0].began.wait()
        async with anyio.create_task_group() as calls:
            calls.start_soon(partial(server.call, "reserve", saga_id, item="b"))
            await eventually(lambda: len(world.sent()) == 2)
            logs[0].go.set()
            await eventually(lambda: logs[0].looks == 1)
            await server.call("reserve", item="c")  # whose end is looked at in a later round
            await eventually(lambda: logs[0].looks == 2)
            assert (await server.engine.saga(saga_id)).step(2).running
            world.go()
        assert (await server.commit(saga_id)).phase == "committed"
        assert await server.history(saga_id) == [
            "SagaOpened",
            "StepIntended",
            "StepSucceeded",
            "StepIntended",
            "StepSucceeded",
            "SagaCommitted",
        ]
