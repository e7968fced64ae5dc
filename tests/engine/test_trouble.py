"""The engine when the log or an adapter is in trouble (DESIGN.md rules 1, 2 and 6)."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import anyio
import pytest
from structlog.testing import capture_logs
from tests.world.failing import BlockedLog, UnreadableLog
from tests.world.reading import World
from tests.world.server import eventually, served

from saga_mcp.domain.errors import LogConflict, LogUnavailable, SagaQuarantined
from saga_mcp.domain.events import (
    StepAttempted,
    StepFellInDoubt,
    StepIntended,
    StepSucceeded,
    UndoFellInDoubt,
    UndoIntended,
    UndoSucceeded,
)
from saga_mcp.domain.values import Phase
from saga_mcp.engine.port import CallReply
from saga_mcp.log.port import Decide, Decided, SagaLog
from saga_mcp.tools.python import PythonTool
from saga_mcp.tools.python_undo import PythonUndo


@pytest.mark.case(45)
async def test_nothing_is_sent_where_the_intent_cannot_be_stored(world: World, database: Path) -> None:
    """DESIGN.md rule 1."""
    async with served(database, wrap=lambda log: BlockedLog(log, StepIntended, times=1)) as server:
        with pytest.raises(LogUnavailable):
            await server.call("reserve", item="a")
        assert world.sent() == []
        assert (await server.call("reserve", item="b")).code == ""


async def test_an_outcome_that_the_log_does_not_take_at_once_is_stored_later(world: World, database: Path) -> None:
    """The effect has happened: a full disk must neither lose the answer nor end the server."""
    async with served(database, wrap=lambda log: BlockedLog(log, StepSucceeded, times=2)) as server:
        reply = await server.call("reserve", item="a")
        assert reply.code == ""
        assert (await server.commit(reply.saga_id)).phase == "committed"
    assert world.order == ["reserve(a)"]


async def test_an_answer_that_comes_late_while_the_log_is_full_is_stored_later(world: World, database: Path) -> None:
    async with served(database, wrap=lambda log: BlockedLog(log, StepFellInDoubt, times=2)) as server:
        reply = await server.call("reserve", item="a", mode="err_after")
        assert reply.code == "step_failed"
        assert (await server.rest(reply.saga_id)).phase == "compensated"
    assert world.standing == []


async def test_an_undo_that_the_log_does_not_take_at_once_is_stored_later(world: World, database: Path) -> None:
    """The part must not stay under way for ever in a process that lives."""
    async with served(database, wrap=lambda log: BlockedLog(log, UndoSucceeded, UndoFellInDoubt, times=2)) as server:
        reply = await server.call("reserve", item="a")
        assert (await server.abort(reply.saga_id)).phase == "compensated"
    assert world.order == ["reserve(a)", "release(a)"]


async def test_a_fault_in_an_adapter_ends_neither_the_server_nor_the_truth(world: World, database: Path) -> None:
    """DESIGN.md rule 2: nothing is known of such a call."""
    async with served(database, on_error="hold") as server:
        with patch.object(PythonTool, "call", side_effect=ZeroDivisionError):
            reply = await server.call("reserve", item="a")
        assert reply.code == "outcome_unknown"
        assert (await server.call("reserve", item="b")).code == ""
    assert world.standing == ["reserve(b)"]


async def test_a_fault_in_an_undo_adapter_counts_as_an_attempt(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
        with patch.object(PythonUndo, "undo", side_effect=ZeroDivisionError):
            await server.abort(reply.saga_id)
        (item,) = await server.items(reply.saga_id)
        assert (item.kind, item.step) == ("dead_letter", 1)
    assert world.standing == ["reserve(a)"]


async def test_a_step_that_was_sent_is_never_said_not_to_have_been(world: World, database: Path) -> None:
    """The log fails while the reply waits for the rollback: its own words would be "nothing was sent"."""
    logs: list[UnreadableLog] = []

    def unreadable(log: SagaLog) -> SagaLog:
        logs.append(UnreadableLog(log))
        return logs[0]

    world.plan(release=["hang_before"])
    async with served(database, wrap=unreadable, reply_within_s=0.5) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                reply = await server.call("reserve", saga_id, item="b", mode="err_before")
                assert (reply.code, reply.step) == ("step_failed", 2)

            calls.start_soon(call)
            await eventually(lambda: bool(world.sent("release")))
            logs[0].error = LogUnavailable("planted: nothing was sent")
    assert world.standing == ["reserve(a)"]


async def test_a_saga_that_cannot_be_read_any_more_is_named_as_such(world: World, database: Path) -> None:
    logs: list[UnreadableLog] = []

    def unreadable(log: SagaLog) -> SagaLog:
        logs.append(UnreadableLog(log))
        return logs[0]

    world.plan(release=["hang_before"])
    async with served(database, wrap=unreadable, reply_within_s=0.5) as server:
        reply = await server.call("reserve", item="a")
        async with anyio.create_task_group() as calls:

            async def abort() -> None:
                with pytest.raises(SagaQuarantined):
                    await server.abort(reply.saga_id)

            calls.start_soon(abort)
            await eventually(lambda: bool(world.sent("release")))
            logs[0].error = SagaQuarantined(reply.saga_id, "planted")
            world.go()


async def test_a_server_whose_claim_was_removed_takes_nothing_new_and_keeps_what_it_does(
    world: World, database: Path
) -> None:
    """S3.5: others take its work over; its own calls must not fall in doubt under its hands."""
    async with served(database, on_error="hold") as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve", saga_id, item="a", mode="hang_before"))
            await eventually(lambda: bool(world.sent("reserve")))
            with capture_logs() as logged:
                for file in database.with_name("saga.db.owners").glob("*.lock"):
                    file.unlink()
                await eventually(lambda: any(entry["event"] == "claim_lost" for entry in logged))
            with pytest.raises(LogUnavailable, match="Restart the server"):
                await server.call("reserve", saga_id, item="b")
            assert (await server.engine.saga(saga_id)).step(1).state == "intended"
            world.go()
        assert (await server.engine.saga(saga_id)).step(1).state == "succeeded"
    assert world.order == ["reserve(a)"]


async def test_a_retry_waits_for_the_log_and_the_step_is_not_left_between_two_attempts(
    world: World, database: Path
) -> None:
    world.plan(book=["err_before", "ok"])
    async with served(database, wrap=lambda log: BlockedLog(log, StepAttempted, times=2)) as server:
        reply = await server.call("book", item="a")
        assert reply.code == ""
        assert (await server.commit(reply.saga_id)).phase == "committed"
    assert world.order == ["book(a)"]


class QuarantiningLog(UnreadableLog):
    """Neither read nor written any more."""

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        if self.error is not None:
            raise self.error
        return await super().decide(saga_id, decide)


async def test_a_call_whose_outcome_cannot_be_stored_is_not_said_to_be_unsent(world: World, database: Path) -> None:
    """The saga becomes unreadable between the effect and its record."""
    logs: list[QuarantiningLog] = []

    def quarantining(log: SagaLog) -> SagaLog:
        logs.append(QuarantiningLog(log))
        return logs[0]

    async with served(database, wrap=quarantining) as server:
        saga_id = await server.begin()
        replies: list[CallReply] = []

        async def call() -> None:
            replies.append(await server.call("reserve", saga_id, item="a", mode="hang_after"))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await eventually(lambda: bool(world.order))
            logs[0].error = SagaQuarantined(saga_id, "planted")
            world.go()
        assert (replies[0].code, replies[0].step) == ("outcome_unknown", 1)
    assert world.order == ["reserve(a)"]


async def test_a_rollback_whose_append_other_processes_beat_is_carried_on_and_is_no_bug(
    world: World, database: Path
) -> None:
    """To lose to others again and again is a rule of the log: it is not reported as a fault of the engine."""
    with capture_logs() as logged:
        async with served(
            database, wrap=lambda log: BlockedLog(log, UndoIntended, times=1, error=LogConflict)
        ) as server:
            reply = await server.call("reserve", item="a")
            await server.abort(reply.saga_id)
            await server.until(reply.saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order == ["reserve(a)", "release(a)"]
    assert [line["event"] for line in logged if line["log_level"] == "error"] == []
