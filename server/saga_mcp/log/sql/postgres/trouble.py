"""What can be wrong with a PostgreSQL server, by its SQLSTATE, and what a person can do about it.

Messages of the server are shown, its details are not, and neither is what the driver says of a parameter: those hold
values.
"""

from __future__ import annotations

from typing import Final

import asyncpg
from sqlalchemy.exc import DBAPIError

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.sql.trouble import (
    NOTHING,
    LogDamaged,
    LogFull,
    LogLocked,
    LogNotAllowed,
    LogPooled,
    LogReadOnly,
    LogTroubled,
    LogUnreachable,
    StatementRefused,
)
from saga_mcp.log.sql.worker import Busy

_AGAIN: Final = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, a lock that was waited for long enough: the server has undone the transaction."""
_LOST: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "57014"})
"""The server ended the session, is starting or stopping, or broke off what took too long."""
_STALE: Final = frozenset({"0A000"})
"""What was prepared does not fit any more: the schema was changed."""
_POOLED: Final = frozenset({"26000", "42P05"})
"""What was prepared is not there, or there already: it is another session than it was."""
_NOT_LET_IN: Final = frozenset({"28000", "28P01", "3D000", "42501"})


_OF_THE_DATABASE: Final = (
    DBAPIError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    EOFError,
)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or not to be used any more."""
    state, cause = _state(error), _cause(error)
    if state is not None:
        return state in _LOST | _STALE or state.startswith("08")
    if isinstance(cause, asyncpg.DataError):
        return False  # of a value
    return isinstance(cause, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError | EOFError)


def translate(error: Exception, name: str) -> Exception:
    """The condition behind an error of the driver or the server; anything else as it is.

    Args:
        error: what was raised.
        name: the database, as people know it.
    """
    if not isinstance(error, _OF_THE_DATABASE):
        return error  # also what has one of these for its cause, and knows more of it
    state, cause = _state(error), _cause(error)
    if state in _AGAIN:
        return Busy(lambda waited_s: _locked(name, waited_s))
    if state == "53300":
        return Busy(lambda _: _full_of_connections(name))
    if is_lost(error):
        said = _said(error)
        at_commit = isinstance(error, DBAPIError) and error.statement == "COMMIT"
        return Busy(lambda waited_s: unreachable(name, said, waited_s), unsettled=at_commit)
    if state is None and not isinstance(cause, asyncpg.DataError | asyncpg.PostgresError):
        return error
    return _named(error, state, name)


def _named(error: Exception, state: str | None, name: str) -> LogUnavailable:
    said = _said(error)
    match state:
        case state if state in _POOLED:
            return LogPooled(pooled())
        case "53100" | "53400":
            return LogFull(
                f"no space left for the saga log {name} on its server ({said}); {NOTHING}. Free some space there; the "
                "next call tries again."
            )
        case "25006":
            return LogReadOnly(
                f"saga log {name} cannot be written ({said}); {NOTHING}. Let [saga] database name the primary server, "
                "not a standby."
            )
        case state if state in _NOT_LET_IN:
            return LogNotAllowed(
                f"the server of the saga log {name} refuses this user: {said}; {NOTHING}. See [saga] database, and "
                "what that user may do: docs/postgresql.md."
            )
        case "42P01" | "42703" | "XX001" | "XX002":
            return LogDamaged(
                f"saga log {name} is damaged ({said}); {NOTHING}, and it was left as it is. It is not recreated, "
                "because the undos of open sagas are in it: restore a backup."
            )
        case state if state is None or state[:2] in {"22", "23", "42", "54"}:
            return StatementRefused(f"saga log {name} does not take this: {said}; {NOTHING}.")
        case _:
            return LogTroubled(f"saga log {name}: {said}; {NOTHING}. Run `saga-mcp doctor`.")


def pooled() -> str:
    """What is wrong where each transaction gets another connection, and what to do."""
    return (
        "between saga-mcp and PostgreSQL is a pooler that lends connections for single transactions (PgBouncer's "
        f"pool_mode = transaction): locks that prove that a process lives do not last there; {NOTHING}. Let [saga] "
        "database name the server itself, or a pool in session mode."
    )


def unreachable(name: str, said: str, waited_s: float) -> LogUnreachable:
    """The server did not answer for `waited_s` seconds."""
    return LogUnreachable(
        f"the server of the saga log {name} does not answer ({said}; tried for {waited_s:.0f} s); {NOTHING}. "
        "Start it, or mend the way to it; the next call tries again."
    )


def unfinished(name: str, waited_s: float) -> LogTroubled:
    """The schema was not made or upgraded in `waited_s` seconds."""
    return LogTroubled(
        f"the tables of the saga log {name} were not made or upgraded within {waited_s:.0f} s, so that was broken "
        f"off; {NOTHING}. Look what its server, or a pooler before it, is waiting for (pg_stat_activity); the next "
        "call tries again."
    )


def _locked(name: str, waited_s: float) -> LogLocked:
    return LogLocked(
        f"saga log {name}: other transactions were in the way for {waited_s:.1f} s; {NOTHING}. Look for a session that "
        "holds locks there (pg_stat_activity); the next call tries again."
    )


def _full_of_connections(name: str) -> LogTroubled:
    return LogTroubled(
        f"the server of the saga log {name} takes no more connections; {NOTHING}. Raise its max_connections (each "
        "saga-mcp uses up to six), or let fewer programs use it; the next call tries again."
    )


def _cause(error: BaseException) -> BaseException:
    """The driver's own error."""
    while True:
        within = error.orig if isinstance(error, DBAPIError) else error.__cause__
        if within is None or isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
            return error
        error = within


def _state(error: BaseException) -> str | None:
    state = getattr(_cause(error), "sqlstate", None)
    return state if isinstance(state, str) else None


def _said(error: BaseException) -> str:
    cause = _cause(error)
    if isinstance(cause, asyncpg.DataError) and _state(error) is None:
        return "a value that it cannot hold, such as a text with half of a surrogate pair"
    text = str(cause).partition("\n")[0]
    state = _state(error)
    return f"{text} [{state}]" if state else text or type(cause).__name__
