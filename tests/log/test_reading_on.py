"""A process reads of a saga that another one has moved what is new, and notices where the log is another one by now.

What is read is counted by the database itself.
"""

# ruff: noqa: S608 - whoever restores a log by hand writes the statements himself

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import pytest
from sqlalchemy import Connection
from tests.log.decisions import append, committing, intending, looking, opening, succeeding
from tests.log.kinds import opened_sql_log
from tests.postgres.server import sql

from saga_mcp.domain.errors import SagaPruned, SagaQuarantined
from saga_mcp.domain.events import SavepointSet
from saga_mcp.domain.saga_decisions import wipe
from saga_mcp.domain.state import Saga
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import Decision
from saga_mcp.log.sql import SqlSagaLog

LONG: Final = 1000
TURNS: Final = 20

Lasting: TypeAlias = Path | ServerPlace


@pytest.fixture(params=["sqlite", "postgresql"])
def lasting(request: pytest.FixtureRequest, path: Path) -> Lasting:
    """A fresh database of each kind that lasts."""
    if request.param == "sqlite":
        return path
    place: ServerPlace = request.getfixturevalue("server_place")
    return place


@pytest.fixture
async def log(lasting: Lasting) -> AsyncGenerator[SqlSagaLog]:
    async with opened_sql_log(lasting) as opened:
        yield opened


@pytest.fixture
async def other(lasting: Lasting) -> AsyncGenerator[SqlSagaLog]:
    """The same database as another process sees it."""
    async with opened_sql_log(lasting) as opened:
        yield opened


def by_hand(database: Lasting, *statements: str) -> None:
    if isinstance(database, ServerPlace):
        sql(database.url, "; ".join(statements))
        return
    with contextlib.closing(sqlite3.connect(database)) as raw, raw:
        for statement in statements:
            raw.execute(statement)


def marking(*names: str) -> Decision:
    return Decision(events=tuple(SavepointSet(name=name) for name in names))


def grown(many: int) -> Callable[[Saga], Decision]:
    return lambda _: marking(*(f"m{n % 7}" for n in range(many)))


async def in_turns(log: SqlSagaLog, other: SqlSagaLog) -> None:
    """As a load balancer sends the calls of one saga to one server and the next."""
    for turn in range(TURNS):
        await (log, other)[turn % 2].decide("sg-a", append(SavepointSet(name=f"t{turn % 3}")))
        await (log, other)[turn % 2].load("sg-a")


async def test_in_postgresql_an_append_after_that_of_another_process_reads_only_what_that_one_appended(
    server_place: ServerPlace,
) -> None:
    async with opened_sql_log(server_place) as log:
        await log.decide("sg-a", opening())
        await log.decide("sg-a", grown(LONG))
    before = await _rows_read(server_place, 0)
    async with opened_sql_log(server_place) as log, opened_sql_log(server_place) as other:
        await log.load("sg-a")
        await other.load("sg-a")
        await in_turns(log, other)
    whole = 2 * (LONG + 1)
    read = await _rows_read(server_place, before + whole) - before
    assert read < whole + 2 * TURNS


async def _rows_read(place: ServerPlace, at_least: int) -> int:
    """Rows of events that the server has read, by its own count, which is known once its sessions have ended."""
    text = "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables WHERE relname = 'saga_event'"
    idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with anyio.fail_after(30):
        while sql(place.url, idle) != "0" or int(sql(place.url, text)) < at_least:  # noqa: ASYNC110 - see above
            await anyio.sleep(0.05)
    return int(sql(place.url, text))


async def test_in_sqlite_an_append_after_that_of_another_process_costs_the_same_in_a_long_saga(tmp_path: Path) -> None:
    """By the instructions that SQLite's machine has run."""
    short, long = [await _instructions(tmp_path / f"{many}.db", many) for many in (10, LONG)]
    assert long < 1.2 * short


async def _instructions(path: Path, many: int) -> int:
    done = 0

    def one() -> int:
        nonlocal done
        done += 1
        return 0

    def count(connection: Connection) -> None:
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.set_progress_handler(one, 1)

    async with opened_sql_log(path) as log, opened_sql_log(path) as other:
        await log.decide("sg-a", opening())
        await log.decide("sg-a", grown(many))
        await other.load("sg-a")
        for each in (log, other):
            await each.read(count)
            await each._writer.aside(count)  # pyright: ignore[reportPrivateUsage]  # what it reads counts too
        await in_turns(log, other)
    return done


async def test_what_was_read_on_is_what_a_new_process_reads(
    log: SqlSagaLog, other: SqlSagaLog, lasting: Lasting
) -> None:
    await log.decide("sg-a", opening())
    await other.load("sg-a")
    await log.decide("sg-a", intending(cents=2**63 + 1))
    await other.decide("sg-a", succeeding({"id": "ch-1"}))
    await log.decide("sg-a", append(SavepointSet(name="here")))
    async with opened_sql_log(lasting) as new:
        assert await other.load("sg-a") == await log.load("sg-a") == await new.load("sg-a")
        checked = await new.check("sg-a")
        assert checked is not None
        assert checked.broken is None


@contextlib.contextmanager
def restored(database: Lasting) -> Generator[Callable[[], None]]:
    """Keep the sagas and their events as they are now; what is given puts them back beneath living processes."""
    tables = ("saga", "saga_event")
    by_hand(database, *(f"CREATE TABLE kept_{name} AS SELECT * FROM {name}" for name in tables))

    def restore() -> None:
        for name in tables:
            by_hand(database, f"DELETE FROM {name}", f"INSERT INTO {name} SELECT * FROM kept_{name}")

    yield restore


async def _load(log: SqlSagaLog) -> Saga:
    return await log.load("sg-a")


async def _look(log: SqlSagaLog) -> Saga:
    return (await log.decide("sg-a", looking)).saga


async def _append(log: SqlSagaLog) -> Saga:
    return (await log.decide("sg-a", intending(mine=1))).before


@pytest.mark.parametrize("use", [_load, _look, _append])
@pytest.mark.parametrize("since", [0, 2, 3])
async def test_another_history_in_a_restored_log_is_seen_whatever_its_length(
    log: SqlSagaLog, other: SqlSagaLog, lasting: Lasting, use: Callable[[SqlSagaLog], Awaitable[Saga]], since: int
) -> None:
    """The process knows two events after the backup, and meets fewer, as many or more, which others appended."""
    await log.decide("sg-a", opening())
    await log.decide("sg-a", intending(n=1))
    with restored(lasting) as restore:
        await other.decide("sg-a", succeeding("lost"))
        await other.decide("sg-a", intending(n="lost"))
        restore()
    async with opened_sql_log(lasting) as new:
        for n in range(since):
            await new.decide("sg-a", intending(n=f"new {n}"))
        true = await new.load("sg-a")
        assert await use(other) == true
        await other.decide("sg-a", intending(n="last"))
        assert [step.plan.args.get("n") for step in (await new.load("sg-a")).steps][-1] == "last"
        assert await other.load("sg-a") == await new.load("sg-a")
        checked = await new.check("sg-a")
        assert checked is not None
        assert checked.broken is None


async def test_an_unreadable_event_among_the_new_ones_quarantines_until_it_can_be_read(
    log: SqlSagaLog, other: SqlSagaLog, lasting: Lasting
) -> None:
    await log.decide("sg-a", opening())
    await other.load("sg-a")
    await log.decide("sg-a", intending())
    by_hand(lasting, "UPDATE saga_event SET type = 'Imagined' WHERE seq = 2")
    with pytest.raises(SagaQuarantined, match="event 2 cannot be read"):
        await other.load("sg-a")
    with pytest.raises(SagaQuarantined, match="event 2 cannot be read"):
        await other.decide("sg-a", succeeding())
    assert [row.state for row in await other.sagas("ops")] == ["quarantined"]
    by_hand(lasting, "UPDATE saga_event SET type = 'StepIntended' WHERE seq = 2")
    assert (await other.decide("sg-a", succeeding())).before.seq == 2


async def test_an_event_that_is_missing_among_the_new_ones_quarantines(
    log: SqlSagaLog, other: SqlSagaLog, lasting: Lasting
) -> None:
    await log.decide("sg-a", opening())
    await other.load("sg-a")
    await log.decide("sg-a", lambda _: marking("a", "b", "c"))
    by_hand(lasting, "DELETE FROM saga_event WHERE seq = 3")
    with pytest.raises(SagaQuarantined, match="event 3 is missing"):
        await other.load("sg-a")
    by_hand(lasting, "DELETE FROM saga_event WHERE seq > 1")
    with pytest.raises(SagaQuarantined, match="counts 4 events, the log holds 1"):
        await other.decide("sg-a", looking)


async def test_values_that_another_process_wiped_are_gone_from_memory_too(log: SqlSagaLog, other: SqlSagaLog) -> None:
    await log.decide("sg-a", opening())
    await log.decide("sg-a", intending(card="4711"))
    await log.decide("sg-a", succeeding())
    await log.decide("sg-a", committing)
    assert (await other.load("sg-a")).steps[0].plan.args == {"card": "4711"}
    await log.decide("sg-a", lambda saga: Decision(events=wipe(saga)))
    assert (await other.load("sg-a")).steps[0].plan.args == {}


async def test_a_saga_that_another_process_pruned_is_not_answered_for_from_memory(
    log: SqlSagaLog, other: SqlSagaLog
) -> None:
    await log.decide("sg-a", opening())
    await log.decide("sg-a", committing)
    await other.load("sg-a")
    assert await log.prune("sg-a", alerts_too=True) == ""
    with pytest.raises(SagaPruned):
        await other.load("sg-a")
    assert (await other.decide("sg-a", looking)).saga == Saga(id="sg-a")
