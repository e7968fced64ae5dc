"""The rows of the outbox as they are written, in the transaction of the events that make them (SEMANTICS.md S10.6).

Synchronous functions over a connection. The first of a saga's line has a time at which it is due; those behind it, and
all of a line that is kept back, have none. So what is due is found by an index, however much waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, insert, literal_column, null, select, update
from sqlalchemy.engine import Dialect

from saga_mcp.domain.alerts import Alert
from saga_mcp.domain.state import Saga
from saga_mcp.log.codec import dump_json
from saga_mcp.log.sql.hot import Hot
from saga_mcp.log.sql.tables import outbox
from saga_mcp.log.sql.tables import realm as realm_table

_C: Final = outbox.c
AT_ONCE: Final = 0.0


class OutboxRows:
    """The write side inside a batch. One instance serves one connection thread."""

    def __init__(self, dialect: Dialect) -> None:
        watched = select(realm_table.c.observed_s).where(realm_table.c.name == bindparam("of_realm")).scalar_subquery()
        self._insert = Hot(
            insert(outbox).values(waits_from_s=func.coalesce(watched, literal_column("0.0"))),
            dialect,
            [column.name for column in outbox.columns if column.name != "waits_from_s"],
        )
        self._first = Hot(select(func.min(_C.seq)).where(_C.saga_id == bindparam("of_saga")), dialect)

    def write(self, connection: Connection, before: Saga, after: Saga, alerts: Sequence[Alert], at: float) -> None:
        """Store what there is to tell about the events of one saga, in order; keep its line back, or let it go."""
        if after.alerts_parked and not before.alerts_parked:
            connection.execute(
                update(outbox).where(_C.saga_id == after.id).values(parked=True, owner="", due_at=null())
            )
        elif before.alerts_parked and not after.alerts_parked:
            _let_go(connection, after)
        if not alerts:
            return
        behind = after.alerts_parked or self._first.value(connection, {"of_saga": after.id}) is not None
        rows = [
            {
                "saga_id": alert.saga_id,
                "seq": alert.seq,
                "n": alert.n,
                "realm": after.realm,
                "of_realm": after.realm,
                "type": alert.type.value,
                "subject": alert.subject,
                "at": at,
                "data": dump_json(alert.data),
                "owner": "",
                "attempts": 0,
                "due_at": None if behind or place else AT_ONCE,
                "parked": after.alerts_parked,
            }
            for place, alert in enumerate(alerts)
        ]
        self._insert.run_many(connection, rows)


def _let_go(connection: Connection, saga: Saga) -> None:
    watched = select(realm_table.c.observed_s).where(realm_table.c.name == saga.realm).scalar_subquery()
    fresh = {"parked": False, "attempts": 0, "waits_from_s": func.coalesce(watched, 0.0)}
    connection.execute(update(outbox).where(_C.saga_id == saga.id).values(**fresh))
    first = connection.execute(line_of(saga.id)).first()
    if first is not None:
        here = (_C.saga_id == first.saga_id, _C.seq == first.seq, _C.n == first.n)
        connection.execute(update(outbox).where(*here).values(due_at=AT_ONCE))


def line_of(saga_id: str) -> Select[Any]:
    """The first of a saga's line."""
    return select(outbox).where(_C.saga_id == saga_id).order_by(_C.seq, _C.n).limit(1)
