"""What can be wrong with the database, and what a person can do about it.

LogUnavailable (domain)        nothing was stored, so nothing was sent
├─ LogLocked                   another program holds the write lock
├─ LogFull                     no space left
├─ LogReadOnly                 the file or its directory cannot be written
├─ LogDamaged                  not a database, a malformed page, or not a saga log; never recreated
├─ LogGone                     the file was moved, replaced or deleted while it was open
├─ LogOnNetwork                the file system cannot share memory between processes
├─ LogNewer                    written by a newer version
├─ LogUpgraded                 upgraded by another process while this one ran
├─ LogInUseByOlder             an older process has to close first
├─ LogUnreachable              the database server does not answer
├─ LogNotAllowed               the database server does not let this user in, or not do what has to be done
├─ LogPooled                   between here and the server is what gives each transaction another connection
├─ LogClosed                   this process is closing
└─ LogTroubled                 anything else the database said
   └─ StatementRefused         what was to be stored is to blame, not the database

Lives with the adapter because only it can tell these apart; the layers above see `LogUnavailable` and show the message.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError

from saga_mcp.domain.errors import LogUnavailable

NOTHING = "nothing was stored and nothing was sent"


class LogLocked(LogUnavailable):
    """Another program held the write lock for longer than the time budget."""


class LogFull(LogUnavailable):
    """The disk is full."""


class LogReadOnly(LogUnavailable):
    """The file or its directory is not writable."""


class LogDamaged(LogUnavailable):
    """The file is no saga log, or its content is malformed."""


class LogGone(LogUnavailable):
    """The open file is no longer the one at its path."""


class LogOnNetwork(LogUnavailable):
    """The file lies where SQLite's write-ahead log does not work."""


class LogNewer(LogUnavailable):
    """The schema is of a newer version."""


class LogUpgraded(LogUnavailable):
    """The schema changed while this process was running."""


class LogInUseByOlder(LogUnavailable):
    """A process of an older version still uses the database that has to be migrated."""


class LogUnreachable(LogUnavailable):
    """The database server does not answer."""


class LogNotAllowed(LogUnavailable):
    """The database server refuses this user."""


class LogPooled(LogUnavailable):
    """A pooler lends its connections for single transactions: nothing that lasts longer can be proved by them."""


class LogClosed(LogUnavailable):
    """The log of this process is closed or closing."""


class LogTroubled(LogUnavailable):
    """The database refused for a reason without a name of its own."""


class StatementRefused(LogTroubled):
    """The database is well but does not take what was to be stored."""


def locked(path: str, waited_s: float) -> LogLocked:
    """The write lock was not free for `waited_s` seconds."""
    return LogLocked(
        f"saga log is locked by another program: {path} (waited {waited_s:.1f} s); {NOTHING}. "
        "Close the program that writes to it; the next call tries again."
    )


def is_busy(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed a moment later."""
    return _primary_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def named(error: DBAPIError, path: str) -> LogUnavailable:
    """The condition behind a database error that is not `is_busy`, with the file and the next move in its message."""
    match _primary_code(error):
        case sqlite3.SQLITE_FULL:
            return LogFull(
                f"no space left for the saga log {path}; {NOTHING}. Free some space; the next call tries again."
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH | sqlite3.SQLITE_CANTOPEN:
            return LogReadOnly(
                f"saga log {path} cannot be written ({_said(error)}); {NOTHING}. "
                "Make the file and its directory writable for this user."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(path, _said(error))
        case None | sqlite3.SQLITE_CONSTRAINT | sqlite3.SQLITE_MISMATCH | sqlite3.SQLITE_TOOBIG | sqlite3.SQLITE_ERROR:
            return StatementRefused(f"saga log {path} does not take this: {_said(error)}; {NOTHING}.")
        case _:
            return LogTroubled(f"saga log {path}: {_said(error)}; {NOTHING}. Run `saga-mcp doctor`.")


def damaged(path: str, why: str) -> LogDamaged:
    """The content of the file cannot be trusted."""
    return LogDamaged(
        f"saga log {path} is damaged ({why}); {NOTHING}, and the file was left as it is. "
        "It is not recreated, because the undos of open sagas are in it: keep a copy and restore a backup."
    )


def _said(error: DBAPIError) -> str:
    name = getattr(error.orig, "sqlite_errorname", "")
    return f"{error.orig} [{name}]" if name else str(error.orig)


def _primary_code(error: DBAPIError) -> int | None:
    """SQLite's result code without its extension; None where the driver itself refused."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None
