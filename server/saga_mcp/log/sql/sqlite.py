"""What is particular to SQLite, as the adapter asks for it: `Database` over one file."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Dialect

from saga_mcp.log.guard import guarded
from saga_mcp.log.port import Append
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql import files, keeping, reads
from saga_mcp.log.sql.connect import SqliteFile
from saga_mcp.log.sql.thread import ConnectionThread
from saga_mcp.log.sql.worker import Worker

_READS_END_WITHIN_S = 0.5
"""Nothing is lost with a read, so one that waits for a lock does not hold up the end of the process."""


class SqliteDatabase:
    """A SQLite file: each connection in a thread of its own. Made by `of`."""

    def __init__(self, file: SqliteFile, poll_s: float) -> None:
        self._file = file
        self._poll_s = poll_s
        self._writer_id = secrets.token_hex(8)

    @classmethod
    def of(
        cls, path: Path, keyring: Keyring, *, make_parent: bool, poll_s: float, file_system_of: files.FileSystemOf
    ) -> SqliteDatabase:
        """Return the database of a file; processes that know it by different names have to meet in one."""
        file = SqliteFile(path=path.resolve(), make_parent=make_parent, file_system_of=file_system_of, keyring=keyring)
        return cls(file, poll_s)

    @property
    def name(self) -> str:
        """See `Database.name`."""
        return str(self._file.path)

    @property
    def dialect(self) -> Dialect:
        """See `Database.dialect`."""
        return SQLiteDialect_pysqlite()

    @property
    def writer_id(self) -> str:
        """See `Database.writer_id`."""
        return self._writer_id

    @property
    def poll_s(self) -> float:
        """See `Database.poll_s`."""
        return self._poll_s

    def used(self) -> AbstractContextManager[None]:
        """See `Database.used`."""
        return guarded(self._file.path, *map(Path, files.side_files(self._file.path)))

    def writer(self) -> Worker:
        """See `Database.writer`."""
        return ConnectionThread("saga-log-writer", self._file.writer, self._file.translate)

    def reader(self) -> Worker:
        """See `Database.reader`."""
        return ConnectionThread(
            "saga-log-reader", self._file.reader, self._file.translate, close_within_s=_READS_END_WITHIN_S
        )

    def wait_for_end(self, connection: Connection, append: Append) -> None:
        """See `Database.wait_for_end`: a COMMIT that has returned has ended, whatever it returned."""

    def alone(self, connection: Connection) -> None:
        """See `Database.alone`: every transaction that writes is."""

    def translate(self, error: Exception) -> Exception:
        """See `Database.translate`."""
        return self._file.translate(error)

    def version(self, connection: Connection) -> object:
        """See `Database.version`."""
        return reads.data_version(connection)

    async def listen(self, announce: Callable[[], None]) -> None:
        """See `Database.listen`: nobody tells."""

    def tell(self, reader: Worker) -> None:
        """See `Database.tell`: the others look by themselves."""

    def overwrite(self, connection: Connection) -> bool:
        """See `Database.overwrite`."""
        return keeping.overwrite(connection)

    def free_space(self, connection: Connection) -> int:
        """See `Database.free_space`."""
        return keeping.free_space(connection)
