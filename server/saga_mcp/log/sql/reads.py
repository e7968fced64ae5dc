"""What is read from the saga log, as plain functions over a connection.

Synchronous on purpose: they run in the thread of whichever connection is used, on every database alike.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, cast

from sqlalchemy import Connection, Row, Select, and_, bindparam, func, select
from sqlalchemy.engine import Dialect

from saga_mcp.domain.errors import SagaNotFound, SagaPruned, SagaQuarantined
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject
from saga_mcp.log.chain import START, Facts, link
from saga_mcp.log.codec import UnreadableEvent, decode
from saga_mcp.log.port import Append, PairRow, Record, SagaRow
from saga_mcp.log.sql.folds import Fold, Folds, fold_rows
from saga_mcp.log.sql.hot import Hot
from saga_mcp.log.sql.rows import READ_COLUMNS, EventRows, StoredRow
from saga_mcp.log.sql.tables import log_meta, pair, saga, saga_event, tombstone
from saga_mcp.log.sql.tables import realm as realm_table

_ROW_COLUMNS = [saga.c[name] for name in SagaRow.__dataclass_fields__]

_CHAIN: Final = ("at", "batch_id", "committed", "link")
"""What a link is computed from, besides what is read anyway."""
NEWER_COLUMNS: Final = (saga.c.seq, saga.c.head, *READ_COLUMNS, *(saga_event.c[name] for name in _CHAIN))
_EVENT: Final = slice(2, 2 + len(READ_COLUMNS))
Found: TypeAlias = tuple[Fold, Sequence[tuple[Any, ...]]]
"""A state of a saga, and what the log holds after it: rows of `NEWER_COLUMNS`, of which one without an event says that
there is nothing. No row: there is no such saga."""


class Reads:
    """The read side. One instance serves one connection thread."""

    def __init__(self, dialect: Dialect, folds: Folds, rows: EventRows) -> None:
        self._folds = folds
        self._rows = rows
        self._sees_one_moment = dialect.name == "postgresql"
        """Each statement, without a transaction around it, which would be two round trips more."""
        self._row = Hot(select(saga.c.seq, saga.c.head).where(saga.c.id == bindparam("id")), dialect)
        newer = and_(
            saga_event.c.saga_id == saga.c.id, saga_event.c.seq > bindparam("after"), saga_event.c.seq <= saga.c.seq
        )
        self._newer = Hot(
            select(*NEWER_COLUMNS)
            .select_from(saga.outerjoin(saga_event, newer))
            .where(saga.c.id == bindparam("id"))
            .order_by(saga_event.c.seq),
            dialect,
        )

    def is_now(self, connection: Connection, fold: Fold) -> bool:
        """Whether the log still holds what a fold was made of, and no more."""
        row: tuple[int, bytes | None] | None = self._row.row(connection, {"id": fold.saga.id})
        seq, head = row or (0, None)
        return (fold.saga.seq, fold.head) == (seq, head or START)

    def current(self, connection: Connection, saga_id: str) -> Fold:
        """The state of a saga as of this transaction; `Saga(id)` where there is none.

        What a fold in memory was made of is not read again, if the chain shows that it is what the log begins with.

        Raises:
            SagaQuarantined: its events cannot be folded.
            LogKeyMissing: its values are encrypted with a key that is not here.
        """
        return self.after(
            connection, self._found(connection, self._folds.get(saga_id) or Fold(Saga(id=saga_id), START))
        )

    def after(self, connection: Connection, found: Found) -> Fold:
        """The state that this leads to; what is known and is no part of the log any more is read anew.

        Raises:
            SagaQuarantined, LogKeyMissing: see `current`.
        """
        known = found[0]
        if known.saga.seq:
            if _goes_on(found):
                fold = self._folded(found)
                # Values that were wiped are to be gone from memory too.
                if fold.saga.wiped == known.saga.wiped:
                    return fold
            self._folds.forget(known)
            found = self._found(connection, Fold(Saga(id=known.saga.id), START))
        return self._folded(found)

    def _found(self, connection: Connection, known: Fold) -> Found:
        return known, self._newer.rows(connection, {"id": known.saga.id, "after": known.saga.seq})

    def _folded(self, found: Found) -> Fold:
        known, rows = found
        if not rows:
            return Fold(Saga(id=known.saga.id), START)
        seq, head = rows[0][:2]
        events = [cast("StoredRow", row[_EVENT]) for row in rows if row[2] is not None]
        state = fold_rows(known.saga, self._rows.read(known.saga.id, events))
        if state.seq != seq:
            raise SagaQuarantined(state.id, f"its row counts {seq} events, the log holds {state.seq}")
        return Fold(state, head or START)

    def missing(self, connection: Connection, saga_id: str) -> SagaNotFound:
        """Why there is no such saga: it never was there, or it was pruned."""
        row = connection.execute(select(tombstone).where(tombstone.c.id == saga_id)).first()
        if row is None:
            return SagaNotFound(saga_id)
        return SagaPruned(saga_id, row.realm, f"{row.summary}, {_day(row.ended_at)}", _day(row.pruned_at))

    def load(self, connection: Connection, saga_id: str) -> Saga:
        """The state of a saga that exists.

        Raises:
            SagaNotFound: the log has no such saga.
            SagaQuarantined: its events cannot be folded.
        """
        with nullcontext() if self._sees_one_moment else connection.begin():
            fold = self.current(connection, saga_id)
        if not fold.saga.opened:
            with connection.begin():
                raise self.missing(connection, saga_id)
        self._folds.put(fold)
        return fold.saga

    def history(self, connection: Connection, saga_id: str, after_seq: int, limit: int) -> list[Record]:
        """The stored events after `after_seq`, in order.

        Raises:
            SagaQuarantined: one of them cannot be read.
        """
        statement = (
            select(*READ_COLUMNS, saga_event.c.at, saga_event.c.committed)
            .where(saga_event.c.saga_id == saga_id, saga_event.c.seq > after_seq)
            .order_by(saga_event.c.seq)
            .limit(limit)
        )
        with connection.begin():
            rows = connection.execute(statement).all()
        events = self._rows.read(saga_id, (_stored(row) for row in rows))
        try:
            return [
                Record(
                    seq=seq,
                    at=row.at,
                    event=decode(kind, version, facts, payload),
                    wiped=row.committed is not None and payload is None,
                )
                for row, (seq, kind, version, facts, payload) in zip(rows, events, strict=True)
            ]
        except UnreadableEvent as error:
            raise SagaQuarantined(saga_id, str(error)) from error


def _goes_on(found: Found) -> bool:
    """Whether what was found after a state was written after just that: the log may be another one by now.

    Its row may count fewer events (a backup was restored), or as many and others.
    """
    known, rows = found
    if not rows:
        return False
    seq, head, number, kind, version, facts, *_, at, batch_id, committed, stored = rows[0]
    if number is None:
        return (known.saga.seq, known.head) == (seq, head or START)
    try:
        after = link(known.head, Facts(known.saga.id, number, kind, version, at, batch_id, facts), committed)
    except (TypeError, ValueError, AttributeError):  # a database may give back anything that somebody put there
        return False
    return bool(number == known.saga.seq + 1 and stored == after)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _stored(row: Row[*tuple[Any, ...]]) -> StoredRow:
    return row.seq, row.type, row.version, row.facts, row.payload, row.sealed, row.key_id


def sagas(  # noqa: PLR0913 - the arguments of the port, and the connection
    connection: Connection,
    realm: str,
    *,
    caller: str | None,
    conversation: str | None,
    open_only: bool,
    attention_only: bool,
    limit: int,
    offset: int,
) -> list[SagaRow]:
    """Rows of a realm, or of one caller or conversation in it, newest first."""
    statement = select(*_ROW_COLUMNS).where(saga.c.realm == realm)
    if caller is not None:
        statement = statement.where(saga.c.caller == caller)
    if conversation is not None:
        statement = statement.where(saga.c.conversation == conversation)
    if open_only:
        statement = statement.where(saga.c.open)
    if attention_only:
        statement = statement.where(saga.c["items"] > 0)
    return _rows(connection, statement.order_by(saga.c.opened_at.desc(), saga.c.id).limit(limit).offset(offset))


def realms(connection: Connection) -> dict[str, int]:
    """Open sagas of each realm."""
    # From each name to the next one in the index: what is read grows with the realms, not with their finished sagas.
    found = select(func.min(saga.c.realm).label("name")).cte("found", recursive=True)
    after = select(func.min(saga.c.realm)).where(saga.c.realm > found.c.name).scalar_subquery()
    found = found.union_all(select(after).where(found.c.name.is_not(None)))
    are_open = select(func.count()).where(saga.c.realm == found.c.name, saga.c.open).scalar_subquery()
    statement = select(found.c.name, are_open).where(found.c.name.is_not(None)).order_by(found.c.name)
    with connection.begin():
        return {name: number for name, number in connection.execute(statement)}  # noqa: C416 - rows, which are no pairs to a type checker


def busy_sagas(connection: Connection, realm: str) -> list[SagaRow]:
    """Every saga of a realm that has to be driven, oldest first."""
    return _rows(connection, select(*_ROW_COLUMNS).where(saga.c.realm == realm, saga.c.busy).order_by(saga.c.opened_at))


def idle_sagas(connection: Connection, realm: str, for_s: float) -> list[SagaRow]:
    """Sagas of a realm that have idled for `for_s`, the longest first."""
    watched = select(realm_table.c.observed_s).where(realm_table.c.name == realm).scalar_subquery()
    statement = select(*_ROW_COLUMNS).where(saga.c.realm == realm, saga.c.idle_from_s <= watched - for_s)
    return _rows(connection, statement.order_by(saga.c.idle_from_s))


def saga_of_key(connection: Connection, realm: str, caller: str, key: str) -> str | None:
    """Id of the saga that this caller opened under `key`."""
    if not key:
        return None
    statement = select(saga.c.id).where(saga.c.realm == realm, saga.c.caller == caller, saga.c.key == key)
    with connection.begin():
        found: str | None = connection.execute(statement.where(saga.c.key != "")).scalar()
    return found


def pair_row(connection: Connection, pair_hash: str) -> PairRow | None:
    """A pair by the hash of its content, which is for the reader to compare; what is no JSON object is an empty one."""
    with connection.begin():
        content: str | None = connection.execute(select(pair.c.content).where(pair.c.hash == pair_hash)).scalar()
    return None if content is None else PairRow(hash=pair_hash, content=_object(content))


def _object(text: object) -> JsonObject:
    try:
        found: object = json.loads(text) if isinstance(text, str | bytes) else None
    except (ValueError, RecursionError):
        found = None
    return cast("JsonObject", found) if isinstance(found, dict) else {}


def hmac_key(connection: Connection) -> bytes:
    """The key with which secrets are made known again."""
    with connection.begin():
        return bytes.fromhex(str(connection.execute(select(log_meta.c.hmac_key)).scalar_one()))


def was_stored(connection: Connection, append: Append) -> bool:
    """Whether a batch whose COMMIT did not answer is in the log."""
    statement = select(saga_event.c.seq).where(
        saga_event.c.saga_id == append.saga_id,
        saga_event.c.seq == append.seq,
        saga_event.c.batch_id == append.batch_id,
    )
    with connection.begin():
        return connection.execute(statement).first() is not None


def data_version(connection: Connection) -> tuple[int, int]:
    """What changes when any other connection has committed (sqlite.org/pragma.html), or this one is a new one."""
    with connection.begin():
        return id(connection), int(connection.exec_driver_sql("PRAGMA data_version").scalar_one())


def _rows(connection: Connection, statement: Select[Any]) -> list[SagaRow]:
    with connection.begin():
        rows = connection.execute(statement).mappings().all()
    return [SagaRow(**row) for row in rows]
