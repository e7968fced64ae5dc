"""The outbox of a log: lines, claims, and what is kept back (SEMANTICS.md S10.6)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.log.decisions import append, committing, opening

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.events import AlertsParked, AlertsResumed, StepAwaitingApproval, StepPlan
from saga_mcp.domain.values import Kind
from saga_mcp.log.outbox import OutboxCounts, PendingAlert
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.tables import EPOCH

ASK = StepPlan(tool="t", kind=Kind.COMPENSABLE)
NOW = 1000.0


@pytest.fixture
async def log(path: Path) -> AsyncGenerator[SqlSagaLog]:
    async with SqlSagaLog.open(path, outbox=True) as opened:
        yield opened


async def asking(log: SqlSagaLog, saga_id: str, *, times: int = 1) -> None:
    """A saga with so many questions, each of which is an alert."""
    await log.decide(saga_id, opening())
    for number in range(1, times + 1):
        await log.decide(saga_id, append(StepAwaitingApproval(step=number, plan=ASK)))


async def due(log: SqlSagaLog, now: float = NOW) -> list[PendingAlert]:
    return [*await log.outbox.due("ops", now, limit=64)]


async def test_only_the_first_of_a_line_is_due_and_the_next_one_follows_it(log: SqlSagaLog) -> None:
    await asking(log, "sg-a", times=3)
    await asking(log, "sg-b")
    heads = await due(log)
    assert [head.id for head in heads] == ["sg-a:2:0", "sg-b:2:0"]
    claimed = await log.outbox.claim(heads[0], "me")
    assert claimed is not None
    second = await log.outbox.delivered(claimed, go_on=True)
    assert second is not None
    assert (second.id, second.owner, second.attempts) == ("sg-a:3:0", "me", 1)
    assert await log.outbox.delivered(second, go_on=False) is None
    third = next(head for head in await due(log) if head.saga_id == "sg-a")
    assert (third.id, third.owner) == ("sg-a:4:0", "")


async def test_of_two_who_claim_the_same_one_does(log: SqlSagaLog) -> None:
    await asking(log, "sg-a")
    (head,) = await due(log)
    assert await log.outbox.claim(head, "one") is not None
    assert await log.outbox.claim(head, "two") is None
    (head,) = await due(log)
    taken_over = await log.outbox.claim(head, "two")
    assert taken_over is not None
    assert (taken_over.owner, taken_over.attempts) == ("two", 2)


async def test_who_has_lost_a_claim_removes_and_postpones_nothing(log: SqlSagaLog) -> None:
    await asking(log, "sg-a", times=2)
    (head,) = await due(log)
    lost = await log.outbox.claim(head, "one")
    assert lost is not None
    (head,) = await due(log)
    await log.outbox.claim(head, "two")
    assert await log.outbox.delivered(lost, go_on=True) is None
    await log.outbox.failed(lost, NOW + 500.0)
    assert [(each.id, each.owner) for each in await due(log)] == [("sg-a:2:0", "two")]
    assert (await log.outbox.counts("ops")).pending == 2


async def test_what_failed_is_due_again_at_its_time_also_after_a_restart_and_with_a_clock_set_back(path: Path) -> None:
    async with SqlSagaLog.open(path, outbox=True) as log:
        await asking(log, "sg-a")
        (head,) = await due(log)
        claimed = await log.outbox.claim(head, "me")
        assert claimed is not None
        await log.outbox.failed(claimed, NOW + 60.0)
    async with SqlSagaLog.open(path) as log:
        assert await due(log) == []
        (again,) = await due(log, NOW + 60.0)
        assert (again.attempts, again.owner) == (1, "")
        assert [each.id for each in await due(log, NOW - 86400.0)] == [again.id]


async def test_a_line_that_is_kept_back_grows_and_goes_on_from_its_start(log: SqlSagaLog) -> None:
    await asking(log, "sg-a")
    await log.decide("sg-a", append(AlertsParked(reason="HTTP 500")))
    await log.decide("sg-a", append(StepAwaitingApproval(step=2, plan=ASK)))
    assert await due(log) == []
    counts = await log.outbox.counts("ops")
    assert (counts.pending, counts.parked) == (0, 2)
    row = (await log.sagas("ops", attention_only=True))[0]
    assert (row.id, row.items) == ("sg-a", 3)
    await log.decide("sg-a", append(AlertsResumed(by="ada")))
    assert [head.id for head in await due(log)] == ["sg-a:2:0"]
    assert (await log.outbox.counts("ops")).pending == 2


async def test_who_has_waited_a_watched_day_is_known(log: SqlSagaLog) -> None:
    await asking(log, "sg-a", times=2)
    await log.observe("ops", await log.observe("ops", -1.0, 0.0), 3600.0)
    await asking(log, "sg-b")
    assert [*await log.outbox.waiting_for("ops", 3600.0, limit=10)] == ["sg-a"]
    assert [*await log.outbox.waiting_for("ops", 3601.0, limit=10)] == []


async def test_ten_thousand_that_wait_are_neither_read_nor_in_the_way(log: SqlSagaLog, path: Path) -> None:
    await asking(log, "sg-a")
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(
            "WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 10000) "
            "INSERT INTO saga_outbox SELECT 'sg-' || (i % 500), i, 0, 'ops', 'item.opened', 's', 1.0, '{}', 0.0, '', 0,"
            " CASE WHEN i <= 500 THEN 0.0 END, 0 FROM k"
        )
        plan = raw.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM saga_outbox WHERE realm = 'ops' AND due_at IS NOT NULL AND due_at <= 5"
        ).fetchall()
    assert "saga_outbox_due" in str(plan)
    assert len(await due(log)) == 64
    assert (await log.outbox.counts("ops")).pending == 10_001
    line = (await due(log))[0]
    claimed = await log.outbox.claim(line, "me")
    order: list[int] = []
    while claimed is not None:
        order.append(claimed.seq)
        claimed = await log.outbox.delivered(claimed, go_on=True)
    assert order == [*range(line.seq, 10_001, 500)]


async def test_a_log_without_an_outbox_keeps_nothing(path: Path) -> None:
    async with SqlSagaLog.open(path) as log:
        await asking(log, "sg-a")
        assert await log.outbox.counts("ops") == OutboxCounts(pending=0, parked=0)


async def test_what_a_decision_tells_comes_back_with_it(log: SqlSagaLog) -> None:
    await log.decide("sg-a", opening())
    (told,) = (await log.decide("sg-a", committing)).alerts
    (stored,) = await due(log)
    assert (stored.type, stored.subject, stored.data, stored.id) == (told.type, told.subject, told.data, "sg-a:2:0")


async def test_an_outbox_that_was_upgraded_meanwhile_is_not_written(log: SqlSagaLog, path: Path) -> None:
    await asking(log, "sg-a")
    (head,) = await due(log)
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE saga_log_meta SET epoch=?", (EPOCH + 1,))
    with pytest.raises(LogUnavailable, match="was upgraded"):
        await log.outbox.claim(head, "me")
