"""Statements of the hot path: SQLAlchemy Core, compiled once, run as text on the driver's own cursor (S10.2).

Executing a Core statement costs 20-40 us of cache-key and parameter work each time, and running its text through
SQLAlchemy still a fifth of the processor time of a decision. Here the former is paid once per connection, and the
latter not at all. The statements stay Core, so each database gets its own dialect's text; transactions stay
SQLAlchemy's, and so do the exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import Connection
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

T = TypeVar("T")


def execute(connection: Connection, text: str) -> None:
    """Execute `text`, which has no result, inside the transaction that `connection` is in.

    Raises:
        DBAPIError: the database refused.
    """
    _on_cursor(connection, text, lambda cursor: cursor.execute(text))


def fetch(connection: Connection, text: str) -> Any:  # noqa: ANN401 - columns of any type
    """Execute `text` as `execute` does; its one row."""

    def use(cursor: DBAPICursor) -> Any:  # noqa: ANN401 - see above
        cursor.execute(text)
        return cursor.fetchone()

    return _on_cursor(connection, text, use)


def _on_cursor(connection: Connection, text: str, use: Callable[[DBAPICursor], T]) -> T:
    """What `use` makes of a cursor, which is closed then: whatever happens, none outlives its read.

    One that was not read to its end keeps its snapshot, also when the transaction is over: this connection would read
    old states and write no more as soon as another process has written. And it would live as long as an error that was
    raised while it was read, for errors keep their frames.
    """
    cursor = connection.connection.cursor()
    try:
        return use(cursor)
    except (connection.dialect.loaded_dbapi.Error, OSError) as error:  # the latter of a connection that is lost
        # Without the parameters: they are values of the outside world (S11.4).
        raise DBAPIError(text, None, error) from error
    finally:
        cursor.close()


class Hot:
    """One compiled statement. Its parameters are plain strings, numbers and None, which need no bind processing."""

    __slots__ = ("_order", "_text")

    def __init__(self, statement: ClauseElement, dialect: Dialect, columns: Sequence[str] | None = None) -> None:
        compiled = cast("SQLCompiler", statement.compile(dialect=dialect, column_keys=columns))
        self._text = compiled.string
        self._order = tuple(compiled.positiontup or ())

    def value(self, connection: Connection, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a column of any type
        """Execute with `values` by name: the first column of the first row, or None."""
        row = self.row(connection, values)
        return None if row is None else row[0]

    def row(self, connection: Connection, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - columns of any type
        """Execute with `values` by name: the first row, or None."""
        return self._execute(connection, values, lambda cursor: cursor.fetchone())

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Any]:
        """Execute with `values` by name: all rows."""
        return self._execute(connection, values, lambda cursor: cursor.fetchall())

    def run(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Execute with `values` by name: how many rows it changed."""
        return self._execute(connection, values, lambda cursor: cursor.rowcount)

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute once per row, in one round trip where the driver can."""
        parameters = [self._in_order(row) for row in rows]
        _on_cursor(connection, self._text, lambda cursor: cursor.executemany(self._text, parameters))

    def _execute(self, connection: Connection, values: Mapping[str, Any], take: Callable[[DBAPICursor], T]) -> T:
        parameters = self._in_order(values)

        def use(cursor: DBAPICursor) -> T:
            cursor.execute(self._text, parameters)
            return take(cursor)

        return _on_cursor(connection, self._text, use)

    def _in_order(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([values[name] for name in self._order])
