"""Connections to a SQLite saga log: how they are opened, and what is checked before one is used (DESIGN section 6)."""

from __future__ import annotations

import ctypes
import sqlite3
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql import files, schema
from saga_mcp.log.sql.hot import execute
from saga_mcp.log.sql.trouble import NOTHING, LogTroubled, is_busy, locked, named
from saga_mcp.log.sql.worker import Busy

SETUP_WAIT_S: Final = 5.0
"""How long opening a connection, and any read, waits for a lock."""

_WAIT_MS: Final = int(SETUP_WAIT_S * 1000)

_Settings: TypeAlias = Mapping[str, int | str]
"""Names of PRAGMAs and what each must read back as."""

_DURABLE: Final[_Settings] = {
    "trusted_schema": 0,
    "journal_mode": "wal",
    "synchronous": 2,  # FULL
    "fullfsync": 1,  # macOS: its plain fsync does not reach the disk
    "secure_delete": 1,  # what is pruned or wiped is overwritten
}
_READ_ONLY: Final[_Settings] = {"trusted_schema": 0, "query_only": 1}


_NO_SIDES: Final[files.Sides] = (None, None)


class _Raw(sqlite3.Connection):
    """A connection that is not closed where closing it could do damage; it then lives as long as the process."""

    may_close: Callable[[], bool] = staticmethod(lambda: True)

    def close(self) -> None:
        if self.may_close():
            super().close()
        else:
            # One reference too many for ever: Python would close it at its own end.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))


@dataclass(slots=True, kw_only=True)
class SqliteFile:
    """A SQLite database by its path, and the connections to it."""

    path: Path
    make_parent: bool
    file_system_of: files.FileSystemOf
    keyring: Keyring = field(default_factory=Keyring)
    """With what is encrypted what is in it."""
    opened: files.Identity | None = field(default=None, init=False)
    """The file as it was first seen: from then on a missing file is never created again."""

    _sides: files.Sides = field(default=_NO_SIDES, init=False)
    """What SQLite has open beside it, in all connections of this process."""
    _using: set[object] = field(default_factory=set[object], init=False)
    """The connections that have: one opens them with its first statement, and the last one removes them."""
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)
    """Connections begin and end in different threads."""
    _lost: bool = field(default=False, init=False)
    """The files beside it were changed under a connection. For good: it may have been read without them since."""
    _written_at: int = field(default=0, init=False)
    """When it was last changed itself, in nanoseconds, as far as is known here."""

    def writer(self) -> Connection:
        """A connection whose transactions hold the write lock from their first statement."""
        self.reader().close()  # finds out whether the file is ours before anything in it is changed
        # A taken lock is reported at once: the writer waits by itself, in turns that can be given up.
        return self._open("BEGIN IMMEDIATE", {**_DURABLE, "busy_timeout": 0})

    def reader(self) -> Connection:
        """A connection that reads snapshots, also while another process holds the write lock."""
        self._find_or_create()
        connection = self._open("BEGIN", {**_READ_ONLY, "busy_timeout": _WAIT_MS})
        try:
            if not schema.is_current(connection, self.path):
                with self._open("BEGIN IMMEDIATE", {**_DURABLE, "busy_timeout": _WAIT_MS}) as migrating:
                    schema.make_current(migrating, self.path)
            self.keyring.require(schema.keys_used(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    def translate(self, error: Exception) -> Exception:
        """The condition behind a database error."""
        if not isinstance(error, DBAPIError):
            return error
        return Busy(partial(locked, str(self.path))) if is_busy(error) else named(error, str(self.path))

    def _find_or_create(self) -> None:
        if self.opened is not None:
            self._require_same()
            return
        files.require_local(self.path, self.file_system_of)
        if files.identity(self.path) is None:
            files.create(self.path, make_parent=self.make_parent)
        self.opened = files.identity(self.path)

    def _require_same(self) -> None:
        """Check that the path and the files beside it are what the connections of this process have open."""
        found = files.status(self.path)
        if found is None or (found.st_dev, found.st_ino) != self.opened:
            raise files.gone(self.path)
        with self._turn:  # or the last connection may end between the two looks
            if self._lost or (self._sides != _NO_SIDES and files.sides(self.path) != self._sides):
                self._lost = True
                raise files.sides_gone(self.path)
        self._written_at = found.st_mtime_ns

    def _uses_sides(self, connection: object) -> None:
        """Note what a connection has opened with its first statement; nothing before there is a write-ahead log."""
        with self._turn:
            opened = files.sides(self.path)
            if opened != _NO_SIDES:
                self._using.add(connection)
                self._sides = opened if self._sides == _NO_SIDES else self._sides

    def _may_close(self, connection: object) -> bool:
        """Whether SQLite may end a connection: the last one writes what its side files hold into the database."""
        with self._turn:
            if self._sides != _NO_SIDES and not self._is_ours_to_write():
                return False
            self._using.discard(connection)
            if not self._using:
                self._sides = _NO_SIDES
            return True

    def _is_ours_to_write(self) -> bool:
        """Whether nobody else can have written to the database since this process knew where it was.

        Then what is only in deleted side files can be saved. Otherwise old pages would be written over newer ones.
        """
        try:
            found = files.status(self.path)
            beside = files.sides(self.path)
        except LogUnavailable:
            return False
        if found is None or (found.st_dev, found.st_ino) != self.opened:
            return False
        untouched = found.st_mtime_ns == self._written_at and all(
            now in {None, known} for now, known in zip(beside, self._sides, strict=True)
        )
        return untouched or (beside == self._sides and not self._lost)

    def _open(self, begin: str, settings: _Settings) -> Connection:
        me = object()

        def connect() -> sqlite3.Connection:
            # mode=rw: SQLite must never create a file by itself.
            raw = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw",
                uri=True,
                timeout=SETUP_WAIT_S,
                isolation_level=None,
                factory=_Raw,
            )
            try:
                self._set(raw, settings)
            except BaseException:
                raw.close()
                raise
            raw.may_close = lambda: self._may_close(me)
            return raw

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]  # registered by the decorator
            self._require_same()
            execute(connection, begin)
            if me not in self._using:
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()
                self._uses_sides(me)

        return engine.connect()

    def _set(self, raw: sqlite3.Connection, settings: _Settings) -> None:
        for name, value in settings.items():
            raw.execute(f"PRAGMA {name}={value}")
            if raw.execute(f"PRAGMA {name}").fetchone() != (value,):
                raise LogTroubled(
                    f"saga log {self.path} cannot be used here: SQLite refuses {name}={value}; {NOTHING}."
                )
