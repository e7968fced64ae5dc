"""Connections to a PostgreSQL server: how they are opened, and what their transactions begin with.

Transactions are begun and ended by our own words, in one round trip each, and not by the driver's: what a transaction
of the writer needs to hold from its start is taken with its BEGIN.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import Generator, Iterable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import await_

from saga_mcp.log.sql.trouble import NOTHING, LogNotAllowed

CONNECT_WITHIN_S: Final = 5.0
"""How long a server may take for each part of connecting; one may let us in, and then say nothing more."""
READS: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
EACH_SEES_ALL: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Each statement sees what was committed before it."""
BY_INDEX: Final = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
"""For serializable transactions: one that reads a whole table, because that is small, is in the way of all others."""

_SETTINGS: Final = (
    "SET application_name = 'saga-mcp'; "
    # What waits or stands still for long is broken off: another process may be waiting for it.
    "SET lock_timeout = '2s'; "
    "SET idle_in_transaction_session_timeout = '10s'; "
    # A machine that is gone without a word has to be noticed, or its locks would show it alive for hours.
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; "
    # Durable means on the disk, whatever the server's own default is; stronger settings stay.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)


@contextlib.contextmanager
def answering(raw: Any, within_s: float) -> Generator[asyncio.TimerHandle]:  # noqa: ANN401 - asyncpg's own, see `connect_raw`
    """End a connection whose server lets the block wait for longer: whatever waits for it fails then.

    Not a cancellation, which would be made use of once, and then wait for the answer to a ROLLBACK.

    Raises:
        ConnectionResetError: the driver tripped over a connection that ended within its own work; nothing was sent.
    """
    watchdog = asyncio.get_running_loop().call_later(within_s, raw.terminate)
    try:
        yield watchdog
    except AttributeError as error:
        if not raw.is_closed():
            raise
        # Between two messages asyncpg does not look whether it still has what it sends them with.
        raise ConnectionResetError("the connection has ended") from error
    finally:
        watchdog.cancel()


def writes(key: int) -> str:
    """How a transaction of the writer begins: as if all ran one after the other, and known by `key` until its end.

    The table lock holds off whoever pauses a tool or migrates, and the other way round; batches share it.
    """
    return (
        "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE saga_log_meta IN ROW SHARE MODE; "
        f"SELECT pg_advisory_xact_lock({key})"
    )


class Server:
    """A database of a server, by its URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self._many = "," in parts.netloc and "target_session_attrs" not in parts.query
        """It names several hosts: the one that is no standby is meant."""
        options = dict(parse_qsl(parts.query))
        secrets = (unquote(parts.password or ""), options.get("password"), options.get("sslpassword"))
        self._secrets = tuple(secret for secret in secrets if secret)
        self._watchdogs: dict[Any, asyncio.TimerHandle] = {}
        """What ends connections with which SQLAlchemy has not made itself acquainted in time."""
        self._engine = create_async_engine(
            "postgresql+asyncpg://", async_creator=self._watched, poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        sync = self._engine.sync_engine
        event.listen(sync, "begin", _begin)
        event.listen(sync, "commit", _commit)
        event.listen(sync, "rollback", _rollback)

    async def connect(self, begin: str) -> AsyncConnection:
        """A connection whose transactions begin with the statements `begin`."""
        connection = await self._engine.connect()
        self._watchdogs.pop(await driver_connection(connection)).cancel()
        return await connection.execution_options(saga_begin=begin)

    async def connect_raw(self) -> Any:  # noqa: ANN401 - asyncpg's own, which the stubs call by another name
        """A connection of the driver.

        Raises:
            LogNotAllowed: the URL does not say whom to connect to, or the two do not agree about TLS.
        """
        try:
            raw = await asyncpg.connect(
                self._url,
                timeout=CONNECT_WITHIN_S,
                target_session_attrs=SessionAttribute.primary if self._many else None,
            )
        except (asyncpg.exceptions.ClientConfigurationError, ValueError, ConnectionError) as error:
            refused = _refused(error, self._secrets)
            if refused is None:
                raise
            raise refused from error
        try:
            _notice_silence(raw)
            with answering(raw, CONNECT_WITHIN_S):
                await raw.execute(_SETTINGS)
        except BaseException:
            raw.terminate()
            raise
        return raw

    async def _watched(self) -> Any:  # noqa: ANN401 - see above
        raw = await self.connect_raw()
        self._watchdogs[raw] = asyncio.get_running_loop().call_later(CONNECT_WITHIN_S, self._give_up, raw)
        return raw

    def _give_up(self, raw: Any) -> None:  # noqa: ANN401 - see above
        del self._watchdogs[raw]
        raw.terminate()


async def driver_connection(connection: AsyncConnection) -> Any:  # noqa: ANN401 - asyncpg's, behind SQLAlchemy's back
    """The driver's own connection."""
    return (await connection.get_raw_connection()).driver_connection


def _refused(error: Exception, secrets: Iterable[str]) -> LogNotAllowed | None:
    """What a person has to mend before a connection can be made; None: it is the server that has to answer."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return LogNotAllowed(
            f"the certificate of the saga log's server is not accepted: {error.verify_message}; {NOTHING}. Let "
            "sslrootcert in [saga] database name the certificate of the authority that signed it, and the host be one "
            "that it was made out to: docs/postgresql.md."
        )
    text = str(error).partition("\n")[0]
    if isinstance(error, ConnectionError):
        if "rejected SSL upgrade" not in text:  # the driver has no type for it
            return None
        return LogNotAllowed(
            f"the saga log's server does not speak TLS, and sslmode in [saga] database asks for it; {NOTHING}. Turn on "
            "`ssl` there, or ask for less here where nobody can listen: docs/postgresql.md."
        )
    shown = type(error).__name__ if any(secret in text for secret in secrets) else text
    return LogNotAllowed(
        f"[saga] database is no URL that a connection can be made with: {shown}; {NOTHING}. It is "
        "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and may end in ?sslmode=verify-full&sslrootcert=FILE."
    )


def run(connection: Connection, text: str) -> str:
    """Run statements without parameters in one round trip; what the last one says it has done.

    Raises:
        DBAPIError: the database refused, or is gone.
    """
    raw: Any = connection.connection.driver_connection
    try:
        return str(await_(raw.execute(text)))
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise DBAPIError(text, None, error) from error


def _begin(connection: Connection) -> None:
    run(connection, connection.get_execution_options()["saga_begin"])


def _commit(connection: Connection) -> None:
    said = run(connection, "COMMIT")
    if said != "COMMIT":
        raise DBAPIError("COMMIT", None, asyncpg.InterfaceError(f"the server answered {said}"))


def _rollback(connection: Connection) -> None:
    if connection.invalidated:
        return  # it has no session any more, and nothing to undo
    with contextlib.suppress(DBAPIError):  # the same
        run(connection, "ROLLBACK")


def _notice_silence(raw: Any) -> None:  # noqa: ANN401 - see above
    """Let the operating system end a connection over which nothing comes through any more."""
    transport = raw._transport  # noqa: SLF001 - there is no other way to its socket
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
