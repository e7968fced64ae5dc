"""What the writer does around COMMIT (SEMANTICS.md S10.1): failures there are planted on its own connection."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError
from tests.log.decisions import intending, looking, opening

from saga_mcp.domain.errors import KindRefused, LogConflict, LogUnavailable
from saga_mcp.domain.state import Saga
from saga_mcp.log.port import AppendUnsettled, Decision
from saga_mcp.log.sql import SqlSagaLog, reads, writer
from saga_mcp.log.sql.batch import Batches
from saga_mcp.log.sql.folds import Fold, Folds


class FailingCommits:
    """Makes the next COMMIT of this process's connections fail, before or after the database did it."""

    def __init__(self) -> None:
        self.next: Callable[[sqlite3.Connection], None] | None = None

    def __call__(self, connection: Connection) -> None:
        planted, self.next = self.next, None
        if planted is not None:
            raw: Any = connection.connection.driver_connection
            planted(raw)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR  # as the driver sets it
            raise OperationalError("COMMIT", None, error) from error


@pytest.fixture
def failing_commits() -> Generator[FailingCommits]:
    commits = FailingCommits()
    event.listen(Engine, "commit", commits)
    yield commits
    event.remove(Engine, "commit", commits)


async def test_a_commit_that_failed_has_stored_nothing(log: SqlSagaLog, failing_commits: FailingCommits) -> None:
    await log.decide("sg-a", opening())
    failing_commits.next = sqlite3.Connection.rollback
    with pytest.raises(LogUnavailable):
        await log.decide("sg-a", intending())
    assert (await log.decide("sg-a", looking)).saga.seq == 1
    assert (await log.decide("sg-a", intending())).saga.seq == 2


async def test_a_commit_that_took_effect_without_an_answer_is_read_back(
    log: SqlSagaLog, failing_commits: FailingCommits
) -> None:
    await log.decide("sg-a", opening())
    failing_commits.next = sqlite3.Connection.commit
    assert (await log.decide("sg-a", intending())).saga.seq == 2
    assert (await log.load("sg-a")).seq == 2
    assert (await log.decide("sg-a", intending())).saga.seq == 3


async def test_a_commit_that_can_neither_be_answered_nor_read_back_says_so(
    log: SqlSagaLog, failing_commits: FailingCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "was_stored", _unreadable)
    monkeypatch.setattr(writer, "was_stored", _unreadable)
    await log.decide("sg-a", opening())
    failing_commits.next = sqlite3.Connection.commit
    with pytest.raises(AppendUnsettled, match="not known whether that was stored") as unsettled:
        await log.decide("sg-a", intending())
    append = unsettled.value.append
    with pytest.raises(LogUnavailable):
        await log.stored(append)
    monkeypatch.undo()
    assert await log.stored(append)
    assert unsettled.value.decided.saga == (await log.decide("sg-a", looking)).saga == await log.load("sg-a")


async def test_a_commit_that_failed_and_cannot_be_read_back_is_told_apart_later(
    log: SqlSagaLog, failing_commits: FailingCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "was_stored", _unreadable)
    monkeypatch.setattr(writer, "was_stored", _unreadable)
    await log.decide("sg-a", opening())
    failing_commits.next = sqlite3.Connection.rollback
    with pytest.raises(AppendUnsettled) as unsettled:
        await log.decide("sg-a", intending())
    monkeypatch.undo()
    assert (await log.decide("sg-a", intending())).saga.seq == 2  # another one takes its place
    assert not await log.stored(unsettled.value.append)


async def test_in_an_unsettled_batch_everyone_is_told_what_concerns_him(
    log: SqlSagaLog, failing_commits: FailingCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "was_stored", _unreadable)
    await log.decide("sg-a", opening())

    def refuse(saga: Saga) -> Decision:
        failing_commits.next = sqlite3.Connection.commit
        return _refuse(saga)

    _, first, refused, second = await asyncio.gather(
        log.decide("sg-b", looking),  # alone; the others wait together
        log.decide("sg-a", intending()),
        log.decide("sg-a", refuse),
        log.decide("sg-a", intending()),
        return_exceptions=True,
    )
    assert isinstance(first, AppendUnsettled)
    assert isinstance(second, AppendUnsettled)
    assert isinstance(refused, KindRefused)
    assert (first.decided.saga.seq, second.decided.saga.seq) == (2, 3)
    assert await log.stored(first.append)
    assert await log.stored(second.append)


async def test_a_decision_that_keeps_losing_is_told_so(log: SqlSagaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite holds the write lock, so there it cannot happen; a database with row locks only gets here."""
    await log.decide("sg-a", opening())
    monkeypatch.setattr(Batches, "_swap", _lose)
    results = await asyncio.gather(
        log.decide("sg-a", intending()),  # alone
        log.decide("sg-a", intending()),
        log.decide("sg-a", looking),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [LogConflict] * 3
    assert (await log.load("sg-a")).seq == 1


async def test_whoever_comes_while_the_first_one_is_written_shares_one_commit(log: SqlSagaLog) -> None:
    await asyncio.gather(*(log.decide(f"sg-{number}", opening()) for number in range(64)))
    commits: list[Connection] = []

    def count(connection: Connection) -> None:
        commits.append(connection)

    event.listen(Engine, "commit", count)
    try:
        await asyncio.gather(*(log.decide(f"sg-{number}", intending()) for number in range(64)))
    finally:
        event.remove(Engine, "commit", count)
    assert len(commits) == 2  # the first one's own, and that of the other 63


async def test_a_look_at_the_state_writes_nothing(log: SqlSagaLog, tmp_path: Path) -> None:
    await log.decide("sg-a", opening())
    size = (tmp_path / "saga.db-wal").stat().st_size
    for _ in range(20):
        await log.decide("sg-a", looking)
    assert (tmp_path / "saga.db-wal").stat().st_size == size


async def test_a_decision_may_block_its_thread_but_not_the_loop(log: SqlSagaLog) -> None:
    """Decisions run where the transaction runs: a slow one delays other writes, never reads or the wire."""
    await log.decide("sg-a", opening())
    loop_is_alive = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(_: Saga) -> Decision:
        asyncio.run_coroutine_threadsafe(_set(loop_is_alive), loop).result(5)
        return Decision()

    await log.decide("sg-a", slow)
    assert loop_is_alive.is_set()


def _unreadable(*_: object) -> bool:
    raise OperationalError("SELECT", None, sqlite3.OperationalError("disk I/O error"))


def _refuse(_: Saga) -> Decision:
    raise KindRefused


def _lose(*_: object) -> bool:
    return False


async def _set(flag: asyncio.Event) -> None:
    flag.set()


def test_only_the_sagas_in_use_are_kept_and_never_an_older_state() -> None:
    folds = Folds(2)
    for name, seq in (("a", 2), ("a", 1), ("b", 1)):
        folds.put(_fold(name, seq))
    assert folds.get("a") == _fold("a", 2)
    folds.put(_fold("c", 1))
    assert folds.get("b") is None
    assert (folds.get("a"), folds.get("c")) == (_fold("a", 2), _fold("c", 1))


def _fold(name: str, seq: int) -> Fold:
    return Fold(Saga(id=name, seq=seq), bytes([seq]) * 32)
