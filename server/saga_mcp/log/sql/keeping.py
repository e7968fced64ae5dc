"""`LogKeeping` over a SQL database: each saga in a transaction of its own, so that whoever works is not held up."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table, delete, func, or_, select, type_coerce, union
from sqlalchemy.types import NullType

from saga_mcp.domain.attention import QUARANTINED, summary
from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.frozen import pair_name
from saga_mcp.domain.on_saga import at_rest
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase
from saga_mcp.log.chain import Broken, Facts, Link, check, wiped_at
from saga_mcp.log.chain import Row as SagaRow
from saga_mcp.log.keeping import Checked, Ended
from saga_mcp.log.sealing import LogKeyMissing, Sealed
from saga_mcp.log.sql.hot import execute, fetch
from saga_mcp.log.sql.projection import differs
from saga_mcp.log.sql.reads import Reads, pair_row
from saga_mcp.log.sql.rows import EventRows
from saga_mcp.log.sql.tables import hold, log_key, outbox, saga, saga_event, tombstone

CHANGED: Final = "it is not as it was written: saga-mcp verify"
NOT_AT_REST: Final = "it is not at rest any more"


def saga_ids(connection: Connection) -> Sequence[str]:
    """See `LogKeeping.saga_ids`."""
    with connection.begin():
        return connection.execute(union(select(saga.c.id), select(saga_event.c.saga_id)).order_by("id")).scalars().all()


def check_saga(connection: Connection, reads: Reads, rows: EventRows, saga_id: str) -> Checked | None:
    """See `LogKeeping.check`."""
    with connection.begin(), _any_text(connection):
        row = connection.execute(_as_stored(saga).where(saga.c.id == saga_id)).first()
        statement = _as_stored(saga_event).where(saga_event.c.saga_id == saga_id).order_by(saga_event.c.seq)
        events = connection.execute(statement).all()
    if row is None and not events:
        return None
    known = SagaRow(
        saga_id=saga_id,
        seq=0 if row is None else row.seq,
        head=None if row is None else row.head,
        chained_from=1 if row is None else row.chained_from,
    )
    links = [*_links(events, rows)]
    broken = check(known, links)
    state, unreadable = _state(connection, reads, saga_id, broken)
    if state is not None and state.seq != known.seq:  # somebody appended in between: row and state are of two moments
        return check_saga(connection, reads, rows, saga_id)
    return Checked(
        saga_id=saga_id,
        realm="" if row is None else row.realm,
        events=len(events),
        uncovered=min(known.chained_from - 1, len(events)),
        wiped=wiped_at(links) > 0,
        head="" if known.head is None else known.head.hex(),
        broken=broken,
        row_differs="" if row is None or broken is not None or state is None else differs(row, state),
        pairs_differ=() if state is None else (*_pairs(connection, state),),
        unreadable=unreadable,
        noted=row is not None and row.state == QUARANTINED,
    )


def _state(connection: Connection, reads: Reads, saga_id: str, broken: Broken | None) -> tuple[Saga | None, str]:
    """What the events come to; None, and why: nobody can tell."""
    try:
        with connection.begin():
            return reads.current(connection, saga_id).saga, ""
    except SagaQuarantined as error:
        return None, error.reason
    except Exception:
        if broken is None:
            raise
        return None, ""  # not even a row that can be read; that it was changed is known


def _pairs(connection: Connection, state: Saga) -> Iterator[tuple[int, str]]:
    """What is wrong with the rows that events name by the hash of their content."""
    found: dict[str, str] = {"": ""}
    for step in state.steps:
        name = step.plan.pair_hash
        if name not in found:
            row = pair_row(connection, name)
            gone = "is gone" if row is None else ""
            found[name] = gone or ("" if row is None or pair_name(row.content) == name else "was changed")
        if found[name]:
            yield step.number, found[name]


def _as_stored(table: Table) -> Select[*tuple[Any, ...]]:
    """Whatever stands in the columns: it need not be what they are for."""
    return select(*(type_coerce(column, NullType()).label(column.name) for column in table.columns))


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _any_text(connection: Connection) -> Generator[None]:
    """Read texts that are none, too, until the block ends: SQLite stores whatever it is given."""
    raw = connection.connection.driver_connection
    if not isinstance(raw, sqlite3.Connection):
        yield
        return
    raw.text_factory = _decoded
    try:
        yield
    finally:
        raw.text_factory = str


def _links(events: Sequence[Row[Any]], rows: EventRows) -> Iterator[Link]:
    for event in events:
        values, unreadable = _values(event, rows)
        yield Link(
            facts=Facts(event.saga_id, event.seq, event.type, event.version, event.at, event.batch_id, event.facts),
            committed=event.committed,
            link=event.link,
            values=values,
            unreadable=unreadable,
        )


def _values(event: Row[Any], rows: EventRows) -> tuple[tuple[bytes, str] | None, bool]:
    """Salt and payload, and whether they are there and cannot be decrypted."""
    if event.sealed is None:
        return (None if event.payload is None else (event.salt or b"", event.payload)), False
    try:
        return rows.unsealed(event.saga_id, event.seq, Sealed(event.key_id, event.sealed)), False
    except LogKeyMissing:
        raise
    except Exception:  # noqa: BLE001 - whatever is wrong with what is stored, it is not what was written
        return None, True


def ended(
    connection: Connection, realm: str, before: float, committed_before: float, *, with_values: bool
) -> list[Ended]:
    """See `LogKeeping.ended`."""
    alerts = select(func.count()).select_from(outbox).where(outbox.c.saga_id == saga.c.id).scalar_subquery()
    statement = (
        select(saga, alerts.label("alerts"))
        .where(saga.c.realm == realm, saga.c.ended_at < before, ~saga.c.open, ~saga.c.busy)
        .where(or_(saga.c.phase != Phase.COMMITTED.value, saga.c.ended_at < committed_before))
        .order_by(saga.c.ended_at, saga.c.id)
    )
    if with_values:
        statement = statement.where(saga.c.wiped_at.is_(None))
    with connection.begin():
        rows = connection.execute(statement).all()
    return [
        Ended(saga_id=row.id, phase=row.phase, events=row.seq, ended_at=row.ended_at, alerts=row.alerts) for row in rows
    ]


_GONE = "it is gone already"


def prune(connection: Connection, reads: Reads, rows: EventRows, saga_id: str, now: float, *, alerts_too: bool) -> str:
    """See `LogKeeping.prune`."""
    try:
        checked = check_saga(connection, reads, rows, saga_id)
        if checked is None:
            ours = tombstone.c.id == saga_id, tombstone.c.pruned_at == now  # of a COMMIT that got no answer
            with connection.begin():
                return _GONE if connection.execute(select(tombstone.c.id).where(*ours)).first() is None else ""
        if not checked.as_written:
            return CHANGED
        with connection.begin():
            return _prune(connection, reads.current(connection, saga_id).saga, now, alerts_too=alerts_too)
    except SagaQuarantined as error:
        return str(error)


def _prune(connection: Connection, state: Saga, now: float, *, alerts_too: bool) -> str:
    row = connection.execute(select(saga).where(saga.c.id == state.id)).first()
    told = connection.execute(select(outbox.c.n).where(outbox.c.saga_id == state.id)).first()
    if row is None:
        return _GONE
    if row.ended_at is None or not at_rest(state):
        return NOT_AT_REST
    if told is not None and not alerts_too:
        return "its alerts are not delivered yet"
    connection.execute(
        tombstone.insert().values(
            id=state.id,
            realm=row.realm,
            caller=row.caller,
            phase=row.phase,
            summary=summary(state),
            seq=row.seq,
            head=row.head,
            ended_at=row.ended_at,
            pruned_at=now,
        )
    )
    connection.execute(delete(saga_event).where(saga_event.c.saga_id == state.id))
    connection.execute(delete(hold).where(hold.c.saga_id == state.id))
    connection.execute(delete(outbox).where(outbox.c.saga_id == state.id))
    connection.execute(delete(saga).where(saga.c.id == state.id))
    return ""


def overwrite(connection: Connection) -> bool:
    """See `LogKeeping.overwrite`: in the database SQLite does so at once; its write-ahead log has the old pages too."""
    blocked: int = fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")[0]  # in no transaction
    return not blocked


def forget_keys(connection: Connection) -> None:
    """Forget keys that nothing needs; whoever writes with one lists it again."""
    with connection.begin():
        used = select(saga_event.c.key_id).where(saga_event.c.key_id.is_not(None))
        connection.execute(delete(log_key).where(log_key.c.id.not_in(used)))


def free_space(connection: Connection) -> int:
    """See `LogKeeping.free_space`; SQLite's `VACUUM` copies the whole file, so a large one is left as it is."""
    forget_keys(connection)
    with connection.begin():
        size = int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        pages, free = (int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in _COUNTS)
    if not free or pages * size > _CHEAP_BYTES:
        return 0
    execute(connection, "VACUUM")
    return free * size


_COUNTS = ("page_count", "freelist_count")
_CHEAP_BYTES = 64_000_000
