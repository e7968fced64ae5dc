"""Which schema the database has, and bringing it to today's (S10.3).

A current schema is recognised by one read. Alembic is imported only where there is something to create or to migrate,
because its import alone would take a good part of the time a start may take (DESIGN.md section 8).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import OperationalError

from saga_mcp.log import owners
from saga_mcp.log.sql.tables import EPOCH, log_key, log_meta
from saga_mcp.log.sql.trouble import NOTHING, LogInUseByOlder, LogNewer, LogTroubled, damaged

APPLICATION_ID: Final = 0x53414741
"""`SAGA`, in the file's header: for `file`, and to tell an empty log from another program's empty database."""


def is_current(connection: Connection, path: Path) -> bool:
    """Whether the schema is the one this code writes; False: it is older, or there is none yet.

    Raises:
        LogNewer: it is of a newer version.
        LogDamaged: the file belongs to another program.
    """
    with connection.begin():
        return _epoch(connection, path) == EPOCH


def make_current(connection: Connection, path: Path) -> None:
    """Create or migrate the schema, once, however many processes start together.

    Args:
        path: the database's file.
        connection: one whose transactions take the write lock at their start.

    Raises:
        LogInUseByOlder: a process of the old schema still runs.
    """
    with connection.begin():
        epoch = _epoch(connection, path)
        if epoch == EPOCH:
            return  # another process was faster
        if epoch is not None:
            _require_no_older_process(path)
            _back_up(path, epoch)
        from saga_mcp.log.sql.migrations import upgrade  # noqa: PLC0415 - imports Alembic

        upgrade(connection)
        if _epoch(connection, path) != EPOCH:
            raise LogTroubled(
                f"the upgrade of the saga log {path} did not reach schema {EPOCH}; it was undone, {NOTHING}"
            )


def keys_used(connection: Connection) -> list[str]:
    """Names of the keys that something in a current log is encrypted with."""
    with connection.begin():
        return [*connection.execute(select(log_key.c.id)).scalars()]


def _epoch(connection: Connection, path: Path) -> int | None:
    """The epoch of the schema; None: the database is empty."""
    # Everything below has to look at one snapshot, which a statement without its table would not begin: another process
    # may be creating the tables right now.
    connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()
    try:
        epoch: int | None = connection.execute(select(log_meta.c.epoch)).scalar()
    except OperationalError as error:
        if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR:  # anything but "no such table"
            raise
        _require_empty(connection, path)
        return None
    if epoch is None:
        raise damaged(str(path), "its schema number is missing")
    if epoch > EPOCH:
        raise LogNewer(
            f"saga log {path} was written by a newer saga-mcp (schema {epoch}, this one knows {EPOCH}); {NOTHING}. "
            "Restart saga-mcp if it was upgraded meanwhile; otherwise install that version again."
        )
    return epoch


def _require_empty(connection: Connection, path: Path) -> None:
    tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()
    owner = connection.exec_driver_sql("PRAGMA application_id").scalar()
    if tables or owner not in {0, APPLICATION_ID}:
        raise damaged(str(path), "it is a database of another program; set [saga] database to a file of its own")


def _require_no_older_process(path: Path) -> None:
    older = [owner for owner in owners.living(owners.directory_of(path)) if owner.epoch < EPOCH]
    if older:
        pids = ", ".join(str(owner.pid) for owner in older)
        raise LogInUseByOlder(
            f"close the older saga-mcp (pid {pids}): the saga log {path} has to be upgraded first; {NOTHING}"
        )


def _back_up(path: Path, epoch: int) -> None:
    """Copy the database as it is before a migration; the copy is complete or it is not there."""
    copy = path.with_name(f"{path.name}.backup-{epoch}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    partial = copy.with_name(f"{copy.name}.partial")
    os.close(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
    with (
        contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(partial)) as target,
    ):
        source.backup(target)
    partial.replace(copy)
