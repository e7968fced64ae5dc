"""The rows by which steps keep out of each other's way (SEMANTICS.md S5.3): who works on what, in whatever process.

Synchronous, over a connection. The rows are no part of any saga's truth: what was captured under them is, so an intent
looks in its own transaction whether its row is still there. Who takes a row from a process that is gone looks in its
own whether an intent came first. Transactions of the writer run as if one after the other, so of the two one gives way.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.engine import Dialect

from saga_mcp.domain.errors import SagaQuarantined
from saga_mcp.domain.fencing import has_under_way
from saga_mcp.log.port import StepLock, StepLockLost
from saga_mcp.log.sql.hot import Hot
from saga_mcp.log.sql.inserting import insert_new
from saga_mcp.log.sql.names import Names
from saga_mcp.log.sql.reads import Reads
from saga_mcp.log.sql.tables import step_lock

_COLUMNS: Final = step_lock.c


class Locks:
    """The locks of a database, over the connection that writes."""

    def __init__(self, dialect: Dialect, reads: Reads) -> None:
        self._reads = reads
        self._names = Names()
        here = (_COLUMNS.realm == bindparam("of_realm"), _COLUMNS.name == bindparam("of_name"))
        self._token = Hot(select(_COLUMNS.token).where(*here), dialect)

    def require(self, connection: Connection, lock: StepLock) -> None:
        """Look, in the transaction that stores what was made under a lock, whether it is still had.

        Raises:
            StepLockLost: it is not.
        """
        here = {"of_realm": lock.realm, "of_name": self._names.of(connection, lock.name)}
        if self._token.value(connection, here) != lock.token:
            message = f"another step has what this one of saga {lock.saga_id} was to work on; nothing was stored"
            raise StepLockLost(message)

    def take(self, connection: Connection, wanted: StepLock, over: StepLock | None) -> StepLock:
        """Take the lock if nobody has it, or only `over` has, whose process is gone; who has it now."""
        with connection.begin():
            name = self._names.of(connection, wanted.name)
            if over is not None and not self._needed(connection, over):
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

    def _needed(self, connection: Connection, lock: StepLock) -> bool:
        try:
            return has_under_way(self._reads.current(connection, lock.saga_id).saga, lock.owner)
        except SagaQuarantined:
            return True  # nobody can tell what it works on

    def drop(self, connection: Connection, lock: StepLock) -> None:
        """Give the lock back; nothing where it is another's by now."""
        with connection.begin():
            self._drop(connection, lock)

    def _drop(self, connection: Connection, lock: StepLock) -> None:
        here = (_COLUMNS.realm == lock.realm, _COLUMNS.name == self._names.of(connection, lock.name))
        connection.execute(delete(step_lock).where(*here, _COLUMNS.token == lock.token))
