"""What can be found out about a SQLite saga log without using it: for `saga-mcp doctor`. Changes nothing.

Looks at the file by itself, not through the adapter: it has to have something to say also where that one refuses.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Final

from saga_mcp.log.inspection import LogInspection
from saga_mcp.log.owners import directory_of, living, stale
from saga_mcp.log.sql.files import NETWORK_FILE_SYSTEMS, FileSystemOf, file_system_of
from saga_mcp.log.sql.schema import APPLICATION_ID
from saga_mcp.log.sql.tables import EPOCH

_WAIT_S: Final = 1.0
_CHECKED_UP_TO_BYTES: Final = 200_000_000
"""Larger files are not read as a whole: that would take long."""

_IN_CLEAR: Final = "SELECT count(DISTINCT saga_id) FROM saga_event WHERE payload IS NOT NULL"


def inspect(path: Path, *, file_system_of: FileSystemOf = file_system_of) -> LogInspection:
    """Look at the saga log at `path`."""
    place = next(folder for folder in (path.parent, *path.parent.parents) if folder.is_dir())
    kind = file_system_of(path)
    exists = path.is_file()
    owners = directory_of(path)
    seen = LogInspection(
        exists=exists,
        parent_exists=path.parent.is_dir(),
        no_file=path.exists() and not exists,
        writable=os.access(place, os.W_OK | os.X_OK) and (not exists or os.access(path, os.R_OK | os.W_OK)),
        mode=stat.S_IMODE(path.stat().st_mode) if exists and os.name == "posix" else 0,
        file_system=kind,
        on_network=kind in NETWORK_FILE_SYSTEMS,
        free_bytes=shutil.disk_usage(place).free,
        size_bytes=_size(path) if exists else 0,
        sqlite=sqlite3.sqlite_version,
        expected_epoch=EPOCH,
        alive=tuple(living(owners)) if owners.is_dir() else (),
        stale_owners=len(stale(owners)) if owners.is_dir() else 0,
    )
    return _opened(path, seen) if exists and seen.writable and not seen.on_network else seen


def _size(path: Path) -> int:
    """What it takes on the disk, with what is written and not yet moved into it."""
    sizes = 0
    for file in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(FileNotFoundError):
            sizes += file.stat().st_size
    return sizes


def _opened(path: Path, seen: LogInspection) -> LogInspection:
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_WAIT_S)) as raw:
            raw.isolation_level = None
            if not raw.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return seen  # not filled yet
            (application,) = raw.execute("PRAGMA application_id").fetchone()
            if application != APPLICATION_ID:
                return replace(seen, foreign=True)
            (journal,) = raw.execute("PRAGMA journal_mode").fetchone()
            (epoch,) = raw.execute("SELECT epoch FROM saga_log_meta").fetchone()
            said = "ok"
            if seen.size_bytes <= _CHECKED_UP_TO_BYTES:
                (said,) = raw.execute("PRAGMA quick_check(1)").fetchone()
            seen = replace(seen, journal=journal, epoch=epoch, damage="" if said == "ok" else str(said))
            if epoch == EPOCH and said == "ok":
                (in_clear,) = raw.execute(_IN_CLEAR).fetchone()
                keys = raw.execute("SELECT id FROM saga_log_key ORDER BY id").fetchall()
                seen = replace(seen, keys=tuple(name for (name,) in keys), in_clear=in_clear)
            return replace(seen, locked=not _takes_lock(raw))
    except sqlite3.Error as error:
        return replace(seen, damage=str(error))


def _takes_lock(raw: sqlite3.Connection) -> bool:
    try:
        raw.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            return False
        raise
    raw.execute("ROLLBACK")
    return True
