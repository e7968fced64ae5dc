"""What a batch needs to know before it decides, read in one round trip where each one counts.

A server that did not make a saga's last append learns that from the statement that every batch begins with, and with it
what is new: otherwise it decided in vain, wrote in vain, and read in another round trip. A file has no round trips:
there it costs less to learn it from a write that changes no row.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Integer, String, bindparam, column, func, literal_column, select, true
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ColumnElement

from saga_mcp.domain.state import Saga
from saga_mcp.log.chain import START
from saga_mcp.log.sql.folds import Fold, Folds
from saga_mcp.log.sql.hot import Hot
from saga_mcp.log.sql.reads import NEWER_COLUMNS, Found
from saga_mcp.log.sql.tables import log_meta, saga, saga_event

_META: Final = 3
_ID: Final = itemgetter(_META)
_ROW: Final = 2
_EVENT: Final = NEWER_COLUMNS[_ROW:]


class Ahead:
    """Reads what is new of a batch's sagas, over a server's database.

    Args:
        dialect: Of that.
        folds: What is known.
        keys: The names of the keys that the log needs.
    """

    def __init__(self, dialect: Dialect, folds: Folds, keys: ColumnElement[str]) -> None:
        from sqlalchemy.dialects.postgresql import ARRAY  # noqa: PLC0415 - a start over SQLite does not pay for it

        self._folds = folds
        ids, seqs = bindparam("ids", type_=ARRAY(String)), bindparam("seqs", type_=ARRAY(Integer))
        asked = func.unnest(ids, seqs).table_valued(column("id", String), column("seq", Integer))
        asked = asked.render_derived(name="asked")
        here = (saga_event.c.saga_id == saga.c.id, saga_event.c.seq > asked.c.seq, saga_event.c.seq <= saga.c.seq)
        # Apart (OFFSET 0), for the planner would look for what is new by one end of the range only: from the first on.
        newer = select(*_EVENT).where(*here).order_by(saga_event.c.seq).offset(literal_column("0")).lateral("newer")
        found = asked.join(saga, saga.c.id == asked.c.id).outerjoin(newer, true())
        self._all = Hot(
            select(log_meta.c.epoch, log_meta.c.pauses, keys, saga.c.id, *NEWER_COLUMNS[:_ROW], *newer.c)
            .select_from(log_meta.outerjoin(found, true()))
            .order_by(saga.c.id, newer.c.seq),
            dialect,
        )

    def read(self, connection: Connection, saga_ids: Collection[str]) -> tuple[Any, dict[str, Found]]:
        """Return the row that every batch checks, and of each saga what is known and what is found after that."""
        known = {each: self._folds.get(each) or Fold(Saga(id=each), START) for each in saga_ids}
        asked = {"ids": [*known], "seqs": [fold.saga.seq for fold in known.values()]}
        rows = self._all.rows(connection, asked)
        of_saga = {name: [row[_META + 1 :] for row in each] for name, each in groupby(rows, _ID) if name is not None}
        return rows[0][:_META], {name: (fold, of_saga.get(name, [])) for name, fold in known.items()}
