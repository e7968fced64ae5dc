"""The rows of paused tools, and their check inside the transaction that stores an intent.

A tool is paused once that row is committed: no intent of any process that is stored later calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.sql import ColumnElement

from saga_mcp.domain.errors import ToolPaused
from saga_mcp.domain.events import Event
from saga_mcp.domain.pausing import Pause, called_by
from saga_mcp.domain.state import Saga
from saga_mcp.log.sql.inserting import insert_new
from saga_mcp.log.sql.tables import log_meta, pause

_COLUMNS: Final = pause.c

Alone: TypeAlias = Callable[[Connection], None]
"""See `Database.alone`: who has paused a tool may rely on it from the moment that this is stored."""


class Pauses:
    """The paused tools as the batches of one connection know them."""

    def __init__(self) -> None:
        self._at: int = -1
        self._known: Mapping[str, Mapping[str, Pause]] = {}

    def refresh(self, connection: Connection, change: int) -> None:
        """Read them again if something changed since.

        Args:
            connection: In whose transaction.
            change: `log_meta.pauses` in it.
        """
        if change != self._at:
            found: dict[str, dict[str, Pause]] = {}
            for row in connection.execute(select(pause)):
                found.setdefault(row.realm, {})[row.tool] = _pause(row.tool, row.by_whom, row.note, row.at)
            self._known, self._at = found, change

    def check(self, saga: Saga, events: Sequence[Event]) -> None:
        """Look whether something paused would be called.

        Raises:
            ToolPaused: it would.
        """
        paused = self._known.get(saga.realm)
        if paused:
            for tool in called_by(saga, events):
                if found := paused.get(tool):
                    raise ToolPaused(tool, found.by, found.note)


def paused(connection: Connection, realm: str) -> Mapping[str, Pause]:
    """The paused tools of a realm, by name."""
    with connection.begin():
        rows = connection.execute(select(pause).where(_COLUMNS.realm == realm).order_by(_COLUMNS.tool)).all()
    return {row.tool: _pause(row.tool, row.by_whom, row.note, row.at) for row in rows}


def put(connection: Connection, alone: Alone, realm: str, wanted: Pause) -> Pause:
    """Pause a tool; the pause that holds then, which may be an older one."""
    with connection.begin():
        alone(connection)
        values = {"realm": realm, "tool": wanted.tool, "by_whom": wanted.by, "note": wanted.note, "at": wanted.at}
        _changed(connection)
        connection.execute(insert_new(pause, connection.dialect).values(values))
        row = connection.execute(select(pause).where(*_here(realm, wanted.tool))).one()
    return _pause(row.tool, row.by_whom, row.note, row.at)


def drop(connection: Connection, alone: Alone, realm: str, tool: str) -> bool:
    """Let a tool be called again; False: it was not paused."""
    with connection.begin():
        alone(connection)
        _changed(connection)
        return connection.execute(delete(pause).where(*_here(realm, tool))).rowcount == 1


def _changed(connection: Connection) -> None:
    connection.execute(update(log_meta).values(pauses=log_meta.c.pauses + 1))


def _here(realm: str, tool: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return (_COLUMNS.realm == realm, _COLUMNS.tool == tool)


def _pause(tool: str, by: str, note: str, at: float) -> Pause:
    return Pause(tool=tool, by=by, note=note, at=at)
