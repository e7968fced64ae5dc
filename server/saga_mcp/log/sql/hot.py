"""Statements of the hot path: SQLAlchemy Core, compiled once, run as text on the driver's own cursor (S10.2).

Executing a Core statement costs 20-40 us of cache-key and parameter work each time, and running its text through
SQLAlchemy still a fifth of the processor time of a decision. Here the former is paid once per connection, and the
latter not at all. The statements stay Core, so each database gets its own dialect's text; transactions stay
SQLAlchemy's, and so do the exceptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler


def execute(connection: Connection, text: str, parameters: Sequence[Any] = ()) -> DBAPICursor:
    """Execute `text` inside the transaction that `connection` is in.

    Raises:
        DBAPIError: the database refused.
    """
    cursor = connection.connection.cursor()
    try:
        cursor.execute(text, parameters)
    except connection.dialect.loaded_dbapi.Error as error:
        raise _refused(text, error) from error
    return cursor


def _refused(text: str, error: Exception) -> DBAPIError:
    return DBAPIError(text, None, error)  # without the parameters: they are values of the outside world (S11.4)


class Hot:
    """One compiled statement. Its parameters are plain strings, numbers and None, which need no bind processing."""

    __slots__ = ("_order", "_text")

    def __init__(self, statement: ClauseElement, dialect: Dialect, columns: Sequence[str] | None = None) -> None:
        compiled = cast("SQLCompiler", statement.compile(dialect=dialect, column_keys=columns))
        self._text = compiled.string
        self._order = tuple(compiled.positiontup or ())

    def value(self, connection: Connection, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a column of any type
        """Execute with `values` by name: the first column of the first row, or None."""
        row = self._execute(connection, values).fetchone()
        return None if row is None else row[0]

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> Iterator[Any]:
        """Execute with `values` by name: the rows, read as they are taken."""
        return iter(self._execute(connection, values).fetchone, None)

    def run(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Execute with `values` by name: how many rows it changed."""
        return self._execute(connection, values).rowcount

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute once per row, in one round trip where the driver can."""
        parameters = [self._in_order(row) for row in rows]
        cursor = connection.connection.cursor()
        try:
            cursor.executemany(self._text, parameters)
        except connection.dialect.loaded_dbapi.Error as error:
            raise _refused(self._text, error) from error

    def _execute(self, connection: Connection, values: Mapping[str, Any]) -> DBAPICursor:
        return execute(connection, self._text, self._in_order(values))

    def _in_order(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([values[name] for name in self._order])
