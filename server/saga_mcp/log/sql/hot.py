"""Statements of the hot path: SQLAlchemy Core, compiled once, run as text (S10.2).

Executing a Core statement costs 20-40 us of cache-key and parameter work each time. Here that is paid once per
connection; what remains is the driver's own `execute`. The statements stay Core, so each database gets its own
dialect's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection, CursorResult
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler


class Hot:
    """One compiled statement. Its parameters are plain strings, numbers and None, which need no bind processing."""

    __slots__ = ("_order", "_text")

    def __init__(self, statement: ClauseElement, dialect: Dialect, columns: Sequence[str] | None = None) -> None:
        compiled = cast("SQLCompiler", statement.compile(dialect=dialect, column_keys=columns))
        self._text = compiled.string
        self._order = tuple(compiled.positiontup or ())

    def run(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute with `values` by name."""
        return connection.exec_driver_sql(self._text, tuple([values[name] for name in self._order]))

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute once per row, in one round trip where the driver can."""
        connection.exec_driver_sql(self._text, [tuple([row[name] for name in self._order]) for row in rows])
