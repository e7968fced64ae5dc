"""Connections to a SQLite saga log: how they are opened, and what is checked before one is used (DESIGN section 6)."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from saga_mcp.log.sql import files, schema
from saga_mcp.log.sql.thread import Busy
from saga_mcp.log.sql.trouble import NOTHING, LogTroubled, is_busy, named

SETUP_WAIT_S: Final = 5.0
"""How long opening a connection, and any read, waits for a lock."""

_PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",  # macOS: its plain fsync does not reach the disk
    "PRAGMA trusted_schema=OFF",
)
_FULL: Final = 2
"""What `PRAGMA synchronous` reads back for FULL."""


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
        self.reader().close()
        # A taken lock is reported at once: the writer waits by itself, in turns that can be given up.
        return self._open("BEGIN IMMEDIATE", "PRAGMA busy_timeout=0")

    def reader(self) -> Connection:
        """A connection that reads snapshots, also while another process holds the write lock."""
        self._find_or_create()
        wait = f"PRAGMA busy_timeout={int(SETUP_WAIT_S * 1000)}"
        connection = self._open("BEGIN", wait)
        try:
            if not schema.is_current(connection, self.path):
                with self._open("BEGIN IMMEDIATE", wait) as migrating:
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

    def _open(self, begin: str, *pragmas: str) -> Connection:
        def connect() -> sqlite3.Connection:
            # mode=rw: SQLite must never create a file by itself.
            raw = sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=SETUP_WAIT_S, isolation_level=None)
            try:
                for statement in (*_PRAGMAS, *pragmas):
                    raw.execute(statement)
                durable = raw.execute("PRAGMA synchronous").fetchone() == (_FULL,)
                write_ahead = raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            except BaseException:
                raw.close()
                raise
            if not (durable and write_ahead):
                raw.close()
                raise LogTroubled(
                    f"saga log {self.path} cannot be made durable here (no synchronous=FULL with WAL); {NOTHING}."
                )
            return raw

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]  # registered by the decorator
            if self.opened is not None:
                files.require_same(self.path, self.opened)
            connection.exec_driver_sql(begin)

        return engine.connect()
