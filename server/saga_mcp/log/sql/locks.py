"""The rows by which steps keep out of each other's way (SEMANTICS.md S5.3): who works on what, in whatever process.

Synchronous, over a connection, each one short transaction. The rows are no part of any saga's truth: what was
captured under them is.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, delete, select

from saga_mcp.log.port import StepLock
from saga_mcp.log.sql.inserting import insert_new
from saga_mcp.log.sql.names import Names
from saga_mcp.log.sql.tables import step_lock

_COLUMNS: Final = step_lock.c


class Locks:
    """The locks of a database."""

    def __init__(self) -> None:
        self._names = Names()

    def take(self, connection: Connection, wanted: StepLock, over: StepLock | None) -> StepLock:
        """Take the lock if nobody has it but `over`; who has it now."""
        with connection.begin():
            name = self._names.of(connection, wanted.name)
            if over is not None:
                self._drop(connection, over)
            connection.execute(
                insert_new(step_lock, connection.dialect).values(
                    realm=wanted.realm,
                    name=name,
                    saga_id=wanted.saga_id,
                    owner=wanted.owner,
                    token=wanted.token,
                )
            )
            here = (_COLUMNS.realm == wanted.realm, _COLUMNS.name == name)
            row = connection.execute(select(_COLUMNS.saga_id, _COLUMNS.owner, _COLUMNS.token).where(*here)).one()
        return StepLock(realm=wanted.realm, name=wanted.name, saga_id=row.saga_id, owner=row.owner, token=row.token)

    def drop(self, connection: Connection, lock: StepLock) -> None:
        """Give the lock back; nothing where it is another's by now."""
        with connection.begin():
            self._drop(connection, lock)

    def _drop(self, connection: Connection, lock: StepLock) -> None:
        here = (_COLUMNS.realm == lock.realm, _COLUMNS.name == self._names.of(connection, lock.name))
        connection.execute(delete(step_lock).where(*here, _COLUMNS.token == lock.token))
