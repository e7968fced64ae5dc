"""`LogKeeping` over a SQL database: each saga in a transaction of its own, so that whoever works is not held up."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, select, type_coerce, union
from sqlalchemy.types import NullType

from saga_mcp.log.chain import Facts, Link, check
from saga_mcp.log.chain import Row as SagaRow
from saga_mcp.log.keeping import Checked
from saga_mcp.log.sealing import LogKeyMissing, Sealed
from saga_mcp.log.sql.rows import EventRows
from saga_mcp.log.sql.tables import saga, saga_event


def saga_ids(connection: Connection) -> Sequence[str]:
    """See `LogKeeping.saga_ids`."""
    with connection.begin():
        return connection.execute(union(select(saga.c.id), select(saga_event.c.saga_id)).order_by("id")).scalars().all()


def check_saga(connection: Connection, rows: EventRows, saga_id: str) -> Checked | None:
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
        wiped=row is not None and row.wiped_at is not None,
    )
    return Checked(
        saga_id=saga_id,
        realm="" if row is None else row.realm,
        events=len(events),
        uncovered=min(known.chained_from - 1, len(events)),
        wiped=known.wiped,
        head="" if known.head is None else known.head.hex(),
        broken=check(known, _links(events, rows)),
    )


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
