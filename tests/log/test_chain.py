"""The hash chain: whatever is done to a stored log by hand, the first event that it concerns is named (S11.5)."""

# ruff: noqa: S608 - whoever changes a log by hand writes the statements himself

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anyio
import pytest
from tests.log.decisions import append, committing, intending, opening, succeeding
from tests.log.golden import EVENT_TYPES, example

from saga_mcp.domain.events import ReadRecorded, SagaWiped
from saga_mcp.domain.saga_decisions import wipe
from saga_mcp.domain.state import Saga
from saga_mcp.log.chain import START, Broken
from saga_mcp.log.keeping import Checked
from saga_mcp.log.port import Decision
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.folds import Fold
from saga_mcp.log.sql.rows import EventRows

SAGA = "sg-every"
KEYRINGS = {"plain": Keyring(), "encrypted": Keyring([bytes(32)])}
WRITTEN = (SagaWiped, *(cls for cls in EVENT_TYPES if cls is not SagaWiped))
"""What comes after a wipe keeps its values."""
ALL = len(WRITTEN)
TABLES = ("saga", "saga_event")
COLUMNS = "type, version, at, batch_id, facts, payload, salt, sealed, key_id, committed, link"


def wiping(saga: Saga) -> Decision:
    return Decision(events=wipe(saga))


@contextlib.contextmanager
def by_hand(path: Path) -> Generator[sqlite3.Connection]:
    """The log in the hands of somebody with a tool for databases."""
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("PRAGMA synchronous = OFF")
        yield raw


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A log of each kind with one event of each kind, nothing in it at its default; no machine would allow the saga."""
    return {name: _written(tmp_path_factory.mktemp(name) / "saga.db", keyring) for name, keyring in KEYRINGS.items()}


def _written(path: Path, keyring: Keyring) -> Path:
    async def begin() -> None:
        async with SqlSagaLog.open(path, keyring=keyring) as log:
            await log.decide(SAGA, opening())

    anyio.run(begin)
    events = [example(cls) for cls in WRITTEN]
    rows, head = EventRows(keyring).written(Fold(Saga(id=SAGA), START), events, at=1.5, batch_id="b")
    with by_hand(path) as raw:
        raw.execute("DELETE FROM saga_event")
        for row in rows:
            marks = ", ".join("?" * len(row))
            raw.execute(f"INSERT INTO saga_event ({', '.join(row)}) VALUES ({marks})", [*row.values()])
        raw.execute("UPDATE saga SET seq = ?, head = ?", (ALL, head))
    return path


@pytest.fixture(params=KEYRINGS)
async def every(request: pytest.FixtureRequest, templates: dict[str, Path], path: Path) -> AsyncGenerator[SqlSagaLog]:
    """That log."""
    shutil.copyfile(templates[request.param], path)
    async with SqlSagaLog.open(path, keyring=KEYRINGS[request.param]) as log:
        yield log


async def checked(log: SqlSagaLog, saga_id: str = SAGA) -> Checked:
    found = await log.check(saga_id)
    assert found is not None
    return found


async def broken_after(log: SqlSagaLog, path: Path, *statements: str) -> Broken | None:
    """What is found after these changes; they are taken back."""
    with by_hand(path) as raw:
        for table in TABLES:
            raw.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        for statement in statements:
            assert raw.execute(statement).rowcount != 0, statement
    found = (await checked(log)).broken
    with by_hand(path) as raw:
        for table in TABLES:
            raw.execute(f"DELETE FROM {table}")
            raw.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
            raw.execute(f"DROP TABLE kept_{table}")
    assert (await checked(log)).broken is None
    return found


async def test_what_was_written_is_found_as_it_was_written(every: SqlSagaLog) -> None:
    found = await checked(every)
    assert (found.broken, found.events, found.uncovered) == (None, ALL, 0)
    assert len(bytes.fromhex(found.head)) == len(START)


@pytest.mark.parametrize("seq", range(1, ALL + 1), ids=[cls.__name__ for cls in WRITTEN])
async def test_a_change_of_any_event_is_named(every: SqlSagaLog, path: Path, seq: int) -> None:
    here = f"WHERE seq = {seq}"
    with by_hand(path) as raw:
        text, box = raw.execute(f"SELECT payload, sealed FROM saga_event {here}").fetchone()
    changes = [
        f"UPDATE saga_event SET facts = replace(facts, '}}', ',\"x\":1}}') {here}",
        f"UPDATE saga_event SET facts = 7 {here}",
        f"UPDATE saga_event SET type = 'SagaOpenedToo' {here}",
        f"UPDATE saga_event SET version = 2 {here}",
        f"UPDATE saga_event SET at = at + 0.001 {here}",
        f"UPDATE saga_event SET at = 'noon' {here}",
        f"UPDATE saga_event SET batch_id = 'other' {here}",
        f"UPDATE saga_event SET committed = zeroblob(32) {here}",
        f"UPDATE saga_event SET link = zeroblob(32) {here}",
        f"UPDATE saga_event SET link = NULL {here}",
        f"UPDATE saga_event SET link = 'x' {here}",
        f"DELETE FROM saga_event {here}",
    ]
    if text is None and box is None:
        changes.append(f"UPDATE saga_event SET payload = '{{}}', salt = zeroblob(16) {here}")
    else:
        changes.append(f"UPDATE saga_event SET payload = NULL, salt = NULL, sealed = NULL, key_id = NULL {here}")
    if text is not None:
        changes.append(f"UPDATE saga_event SET payload = replace(payload, 'some', 'sane') || ' ' {here}")
        changes.append(f"UPDATE saga_event SET salt = zeroblob(16) {here}")
        changes.append(f"UPDATE saga_event SET payload = x'ff' {here}")
    if box is not None:
        changes.append(f"UPDATE saga_event SET sealed = substr(sealed, 1, length(sealed) - 1) || x'00ff' {here}")
        changes.append(f"UPDATE saga_event SET sealed = x'' {here}")
    for change in changes:
        found = await broken_after(every, path, change)
        assert found is not None, change
        assert found.seq == seq, (change, found)


async def test_events_that_change_places_are_named_by_the_first(every: SqlSagaLog, path: Path) -> None:
    for seq in range(1, ALL):
        found = await broken_after(
            every,
            path,
            f"UPDATE saga_event SET seq = -1 WHERE seq = {seq}",
            f"UPDATE saga_event SET seq = {seq} WHERE seq = {seq + 1}",
            f"UPDATE saga_event SET seq = {seq + 1} WHERE seq = -1",
        )
        assert found is not None
        assert found.seq == seq


async def test_an_event_that_was_put_in_between_is_named(every: SqlSagaLog, path: Path) -> None:
    """All later ones move on, and the saga's row counts one more."""
    for seq in range(1, ALL + 1):
        found = await broken_after(
            every,
            path,
            f"UPDATE saga_event SET seq = -seq WHERE seq >= {seq}",
            "UPDATE saga_event SET seq = 1 - seq WHERE seq < 0",
            f"INSERT INTO saga_event (saga_id, seq, {COLUMNS}) SELECT saga_id, {seq}, {COLUMNS} FROM saga_event "
            f"WHERE seq = {ALL + 1 if seq == 1 else 1}",
            "UPDATE saga SET seq = seq + 1",
        )
        assert found is not None
        assert found.seq == seq


async def test_an_end_that_was_cut_off_is_named(every: SqlSagaLog, path: Path) -> None:
    cut = f"DELETE FROM saga_event WHERE seq > {ALL - 3}"
    assert await broken_after(every, path, cut) == Broken(
        ALL - 2, f"is missing: the saga has {ALL} events, and its end was cut off"
    )
    shorter = await broken_after(every, path, cut, f"UPDATE saga SET seq = {ALL - 3}")
    assert shorter is not None
    assert shorter.seq == ALL - 3
    assert "last" in shorter.why


async def test_an_event_that_was_added_at_the_end_is_named(every: SqlSagaLog, path: Path) -> None:
    more = (
        f"INSERT INTO saga_event (saga_id, seq, {COLUMNS}) SELECT saga_id, {ALL + 1}, {COLUMNS} FROM saga_event "
        "WHERE seq = 1"
    )
    found = await broken_after(every, path, more)
    assert found is not None
    assert (found.seq, "was added" in found.why) == (ALL + 1, True)


async def test_a_saga_whose_row_is_gone_is_found_by_its_events(every: SqlSagaLog, path: Path) -> None:
    found = await broken_after(every, path, "DELETE FROM saga")
    assert found is not None
    assert found.seq == 1
    assert list(await every.saga_ids()) == [SAGA]


async def test_the_chain_goes_on_over_batches_and_processes(path: Path) -> None:
    for decision in (opening(), intending(card="4111"), succeeding(result="ok"), committing):
        async with SqlSagaLog.open(path) as log:
            await log.decide("sg-a", decision)
    async with SqlSagaLog.open(path) as log, SqlSagaLog.open(path) as other:
        await log.decide("sg-b", opening())
        await other.decide("sg-b", intending())
        await log.decide("sg-b", succeeding())
        for name in ("sg-a", "sg-b"):
            assert (await checked(log, name)).broken is None
        with by_hand(path) as raw:
            links = [link for (link,) in raw.execute("SELECT link FROM saga_event")]
            assert len(set(links)) == len(links)
            heads = {head for (head,) in raw.execute("SELECT head FROM saga")}
            assert heads == {
                link
                for (link,) in raw.execute(
                    "SELECT link FROM saga_event JOIN saga ON id = saga_id AND saga.seq = saga_event.seq"
                )
            }


async def test_equal_values_leave_no_equal_trace(log: SqlSagaLog, path: Path) -> None:
    """Nobody can tell from what stays after a wipe that two calls were the same, or try out what they were."""
    await log.decide("sg-a", opening())
    await log.decide("sg-a", append(*_twice()))
    with by_hand(path) as raw:
        marks = [mark for (mark,) in raw.execute("SELECT committed FROM saga_event WHERE type = 'ReadRecorded'")]
    assert len(set(marks)) == 2


def _twice() -> tuple[ReadRecorded, ReadRecorded]:
    one = ReadRecorded(tool="t", args={"pin": "1234"})
    return one, one


@pytest.mark.parametrize("name", KEYRINGS)
async def test_a_wipe_keeps_the_chain_and_removes_every_value(path: Path, name: str) -> None:
    async with SqlSagaLog.open(path, keyring=KEYRINGS[name]) as log:
        await log.decide("sg-a", opening())
        for decision in (intending(card="4111-secret"), succeeding(result="ok-secret"), committing):
            await log.decide("sg-a", decision)
        assert (await log.decide("sg-a", wiping)).saga.wiped
        found = await checked(log, "sg-a")
        assert (found.broken, found.wiped) == (None, True)
        records = await log.history("sg-a")
        assert [record.wiped for record in records] == [False, True, True, False, False]
        with by_hand(path) as raw:
            left = raw.execute("SELECT payload, salt, sealed, key_id FROM saga_event").fetchall()
            assert set(left) == {(None, None, None, None)}
            raw.execute("UPDATE saga_event SET payload = '{}' WHERE seq = 2")
        assert (await checked(log, "sg-a")).broken == Broken(2, "has values that were changed")


@pytest.mark.parametrize("name", KEYRINGS)
async def test_values_that_were_removed_by_hand_are_missed_though_the_row_says_they_were_wiped(
    path: Path, name: str
) -> None:
    async with SqlSagaLog.open(path, keyring=KEYRINGS[name]) as log:
        for decision in (opening(), intending(card="4111"), succeeding(), committing):
            await log.decide("sg-a", decision)
        with by_hand(path) as raw:
            raw.execute("UPDATE saga_event SET payload = NULL, salt = NULL, sealed = NULL, key_id = NULL")
            raw.execute("UPDATE saga SET wiped_at = 1.0")
        found = await checked(log, "sg-a")
        assert found.broken == Broken(2, "has lost its values, and the saga was not wiped")
        assert not found.wiped


@pytest.mark.parametrize("name", KEYRINGS)
async def test_a_saga_that_was_changed_is_not_wiped(path: Path, name: str) -> None:
    """Else nobody could see any more that it was."""
    async with SqlSagaLog.open(path, keyring=KEYRINGS[name]) as log:
        for decision in (opening(), intending(card="4111"), succeeding(), committing):
            await log.decide("sg-a", decision)
        with by_hand(path) as raw:
            raw.execute("UPDATE saga_event SET at = at + 1 WHERE seq = 2")
        assert "saga-mcp verify" in await log.wipe("sg-a")
        found = await checked(log, "sg-a")
        assert (found.broken is None, found.wiped) == (False, False)


async def test_a_saga_that_is_not_at_rest_is_not_wiped(log: SqlSagaLog) -> None:
    await log.decide("sg-a", opening())
    await log.decide("sg-a", intending(card="4111"))
    decided = await log.decide("sg-a", wiping)
    assert decided.saga is decided.before
    assert (await log.load("sg-a")).steps[0].plan.args == {"card": "4111"}


@pytest.mark.parametrize(
    ("column", "value"),
    [("phase", "committed"), ("state", "committed"), ("open", 0), ("items", 7), ("realm", "other"), ("purpose", "x")],
)
async def test_a_row_that_says_something_else_than_its_events_is_named(
    log: SqlSagaLog, path: Path, column: str, value: object
) -> None:
    """An open saga would be in no list, and nobody would drive it."""
    await log.decide("sg-a", opening(purpose="a trip"))
    await log.decide("sg-a", intending())
    assert (await checked(log, "sg-a")).row_differs == ""
    with by_hand(path) as raw:
        raw.execute(f"UPDATE saga SET {column} = ?", (value,))
    found = await checked(log, "sg-a")
    assert (found.broken, found.as_written) == (None, False)
    assert found.row_differs.startswith(f"{column} {value!r}, not ")
