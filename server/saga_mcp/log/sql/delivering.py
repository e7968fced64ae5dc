"""Delivering what lies in the outbox: who may send it, and what became of it (SEMANTICS.md S10.6).

Each change is a short transaction of its own, beside the decisions and never in the way of one for longer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, or_, select, update

from saga_mcp.log.outbox import OutboxCounts, PendingAlert
from saga_mcp.log.sql.outbox import AT_ONCE, line_of
from saga_mcp.log.sql.tables import outbox
from saga_mcp.log.sql.tables import realm as realm_table

T = TypeVar("T")

_C: Final = outbox.c
_FAR_S: Final = 3600.0
"""Nothing is put off for longer: what is due later than that was put off by a clock that has been set since."""


class Runs(Protocol):
    """Runs something over a connection, in its thread."""

    def __call__(self, work: Callable[[Connection], T], /) -> Awaitable[T]:
        """Return what `work` returns."""
        ...


class SqlOutbox:
    """The port over one database. Made by `SqlSagaLog`."""

    def __init__(self, read: Runs, write: Runs, check: Callable[[Connection], object]) -> None:
        self._read = read
        self._write = write
        self._check = check
        """Raises where the schema is not the one this code writes."""

    async def due(self, realm: str, now: float, *, limit: int) -> Sequence[PendingAlert]:
        """See `Outbox.due`."""
        return await self._read(lambda connection: _due(connection, realm, now, limit))

    async def claim(self, seen: PendingAlert, owner: str) -> PendingAlert | None:
        """See `Outbox.claim`."""
        as_seen = (_C.owner == seen.owner, _C.attempts == seen.attempts, _C.due_at.is_not(None))
        return await self._change(lambda connection: _claim(connection, seen, owner, *as_seen))

    async def delivered(self, claimed: PendingAlert, *, go_on: bool) -> PendingAlert | None:
        """See `Outbox.delivered`."""
        return await self._change(lambda connection: _delivered(connection, claimed, go_on=go_on))

    async def failed(self, claimed: PendingAlert, again_at: float) -> None:
        """See `Outbox.failed`."""
        mine = (*_at(claimed), _C.owner == claimed.owner, _C.due_at.is_not(None))
        await self._change(
            lambda connection: connection.execute(update(outbox).where(*mine).values(owner="", due_at=again_at))
        )

    async def waiting_for(self, realm: str, seconds: float, *, limit: int) -> Sequence[str]:
        """See `Outbox.waiting_for`."""
        return await self._read(lambda connection: _waiting_for(connection, realm, seconds, limit))

    async def counts(self, realm: str) -> OutboxCounts:
        """See `Outbox.counts`."""
        return await self._read(lambda connection: _counts(connection, realm))

    async def _change(self, work: Callable[[Connection], T]) -> T:
        def in_transaction(connection: Connection) -> T:
            with connection.begin():
                self._check(connection)
                return work(connection)

        return await self._write(in_transaction)


def _due(connection: Connection, realm: str, now: float, limit: int) -> list[PendingAlert]:
    statement = (
        select(outbox)
        .where(_C.realm == realm, _C.due_at.is_not(None), or_(_C.due_at <= now, _C.due_at > now + _FAR_S))
        .order_by(_C.due_at, _C.at)
        .limit(limit)
    )
    with connection.begin():
        return [_pending(row) for row in connection.execute(statement)]


def _delivered(connection: Connection, claimed: PendingAlert, *, go_on: bool) -> PendingAlert | None:
    gone = connection.execute(delete(outbox).where(*_at(claimed), _C.owner == claimed.owner)).rowcount
    following = connection.execute(line_of(claimed.saga_id)).first() if gone else None
    if following is None or following.parked:
        return None
    after = _pending(following)
    connection.execute(update(outbox).where(*_at(after)).values(due_at=AT_ONCE))
    return _claim(connection, after, claimed.owner) if go_on else None


def _waiting_for(connection: Connection, realm: str, seconds: float, limit: int) -> list[str]:
    watched = select(realm_table.c.observed_s).where(realm_table.c.name == realm).scalar_subquery()
    statement = (
        select(_C.saga_id)
        .where(_C.realm == realm, _C.due_at.is_not(None), _C.waits_from_s <= watched - seconds)
        .order_by(_C.waits_from_s)
        .limit(limit)
    )
    with connection.begin():
        return list(connection.execute(statement).scalars())


def _counts(connection: Connection, realm: str) -> OutboxCounts:
    pending = _C.parked.is_(False)
    failing = and_(pending, or_(_C.attempts > 1, and_(_C.attempts == 1, _C.owner == "")))  # the last may be under way
    statement = select(
        func.count().filter(pending),
        func.count().filter(_C.parked),
        func.min(_C.at).filter(pending),
        func.count().filter(failing),
        func.max(_C.attempts).filter(failing),
    ).where(_C.realm == realm)
    with connection.begin():
        row = connection.execute(statement).one()
    return OutboxCounts(pending=row[0], parked=row[1], oldest_at=row[2], failing=row[3], most_attempts=row[4] or 0)


def _claim(connection: Connection, alert: PendingAlert, owner: str, *where: ColumnElement[bool]) -> PendingAlert | None:
    claimed = {"owner": owner, "attempts": _C.attempts + 1}
    if not connection.execute(update(outbox).where(*_at(alert), *where).values(**claimed)).rowcount:
        return None
    return replace(alert, owner=owner, attempts=alert.attempts + 1)


def _at(alert: PendingAlert) -> tuple[ColumnElement[bool], ...]:
    return (_C.saga_id == alert.saga_id, _C.seq == alert.seq, _C.n == alert.n)


def _pending(row: Row[Any]) -> PendingAlert:
    return PendingAlert(
        saga_id=row.saga_id,
        seq=row.seq,
        n=row.n,
        realm=row.realm,
        type=row.type,
        subject=row.subject,
        at=row.at,
        data=json.loads(row.data),
        owner=row.owner,
        attempts=row.attempts,
    )
