"""Connections to a SQLite saga log: how they are opened, and what is checked before one is used (DESIGN section 6)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from saga_mcp.log.sql import files, schema
from saga_mcp.log.sql.hot import execute
from saga_mcp.log.sql.thread import Busy
from saga_mcp.log.sql.trouble import NOTHING, LogTroubled, is_busy, named

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
}
_READ_ONLY: Final[_Settings] = {"trusted_schema": 0, "query_only": 1}


@dataclass(slots=True, kw_only=True)
class SqliteFile:
    """A SQLite database by its path, and the connections to it."""

    path: Path
    make_parent: bool
    file_system_of: files.FileSystemOf
    opened: files.Identity | None = field(default=None, init=False)
    """The file as it was first seen: from then on a missing file is never created again."""

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
        except BaseException:
            connection.close()
            raise
        return connection

    def translate(self, error: DBAPIError) -> Exception:
        """The condition behind a database error."""
        return Busy() if is_busy(error) else named(error, str(self.path))

    def _find_or_create(self) -> None:
        if self.opened is not None:
            files.require_same(self.path, self.opened)
            return
        files.require_local(self.path, self.file_system_of)
        if files.identity(self.path) is None:
            files.create(self.path, make_parent=self.make_parent)
        self.opened = files.identity(self.path)

    def _open(self, begin: str, settings: _Settings) -> Connection:
        def connect() -> sqlite3.Connection:
            # mode=rw: SQLite must never create a file by itself.
            raw = sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=SETUP_WAIT_S, isolation_level=None)
            try:
                self._set(raw, settings)
            except BaseException:
                raw.close()
                raise
            return raw

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]  # registered by the decorator
            files.require_same(self.path, self.opened)
            execute(connection, begin)

        return engine.connect()

    def _set(self, raw: sqlite3.Connection, settings: _Settings) -> None:
        for name, value in settings.items():
            raw.execute(f"PRAGMA {name}={value}")
            if raw.execute(f"PRAGMA {name}").fetchone() != (value,):
                raise LogTroubled(
                    f"saga log {self.path} cannot be used here: SQLite refuses {name}={value}; {NOTHING}."
                )
