"""What a saga's row says while its events cannot be read (SEMANTICS.md S10.3).

Nobody reads finished sagas in order to list them, so who meets one that cannot be read notes it in its row, which lists
are made of. The next append, or the next check that can read it, writes what its events give.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import anyio
from sqlalchemy import Connection, select, update

from saga_mcp.domain.attention import QUARANTINED
from saga_mcp.domain.errors import LogUnavailable, SagaQuarantined
from saga_mcp.log.keeping import Checked
from saga_mcp.log.sql.batch import Batches
from saga_mcp.log.sql.projection import projection
from saga_mcp.log.sql.tables import saga

T = TypeVar("T")

_WITHIN_S: Final = 0.5
"""How long a note may hold up the answer that it is a note of."""


class _Run(Protocol):
    """Runs a function over a connection."""

    async def __call__(self, work: Callable[[Connection], T], /) -> T: ...


class Quarantine:
    """Notes in rows which sagas cannot be read. Where the log cannot be written now, whoever meets it next does."""

    def __init__(self, read: _Run, write: _Run, batches: Batches) -> None:
        self._read = read
        self._write = write
        self._batches = batches

    async def noted(self, work: Awaitable[T]) -> T:
        """Return what `work` does, and note the saga that it could not read."""
        try:
            return await work
        except SagaQuarantined as error:
            await self._note(error.saga_id)
            raise

    async def checked(self, found: Checked) -> None:
        """Let the row of a saga that was looked at say whether it can be read."""
        if found.unreadable:
            await self._note(found.saga_id)
        elif found.noted:
            with contextlib.suppress(LogUnavailable, SagaQuarantined):
                await self._write(lambda connection: self._lift(connection, found.saga_id))

    async def _note(self, saga_id: str) -> None:
        with contextlib.suppress(LogUnavailable), anyio.move_on_after(_WITHIN_S):
            if not await self._read(lambda connection: _is_noted(connection, saga_id)):
                await self._write(lambda connection: self._mark(connection, saga_id))

    def _mark(self, connection: Connection, saga_id: str) -> None:
        """A person has to see it, whatever the row said before."""
        with connection.begin():
            self._batches.checked(connection)
            marked = {"state": QUARANTINED, "items": 1, "open": True}
            connection.execute(update(saga).where(saga.c.id == saga_id).values(marked))

    def _lift(self, connection: Connection, saga_id: str) -> None:
        with connection.begin():
            self._batches.checked(connection)
            given = projection(self._batches.reads.current(connection, saga_id).saga, 0.0)
            listed = {name: given[name] for name in ("state", "items", "open")}
            connection.execute(update(saga).where(saga.c.id == saga_id, saga.c.state == QUARANTINED).values(listed))


def _is_noted(connection: Connection, saga_id: str) -> bool:
    """Whether its row says so; also where there is no row that could."""
    with connection.begin():
        state: str | None = connection.execute(select(saga.c.state).where(saga.c.id == saga_id)).scalar()
    return state in {None, QUARANTINED}
