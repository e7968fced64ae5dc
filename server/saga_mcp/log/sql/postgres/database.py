"""What is particular to PostgreSQL, as the adapter asks for it: `Database` over one database of a server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import Append
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql import keeping
from saga_mcp.log.sql.postgres import schema, trouble
from saga_mcp.log.sql.postgres.connecting import (
    BY_INDEX,
    CONNECT_WITHIN_S,
    EACH_SEES_ALL,
    READS,
    Server,
    answering,
    driver_connection,
    run,
    writes,
)
from saga_mcp.log.sql.postgres.living import lock_of
from saga_mcp.log.sql.postgres.readers import Readers
from saga_mcp.log.sql.postgres.session import CHANNEL, Session
from saga_mcp.log.sql.postgres.task import ConnectionTask, discard
from saga_mcp.log.sql.worker import Worker

_WRITES_WITHIN_S: Final = 15.0
_READS_WITHIN_S: Final = 60.0
_MIGRATES_WITHIN_S: Final = 1800.0
"""More than a log of any size needs: for a server that lets us begin, and then says nothing more."""
_READS_END_WITHIN_S: Final = 0.5
"""Nothing is lost with a read, so one that waits does not hold up the end of the process."""
_POLL_S: Final = 5.0
_POLL_DEAF_S: Final = 0.5
"""How often it is looked for changes while nobody can tell of them."""
_LISTENS_WITHIN_S: Final = 1.0


class PostgresDatabase:
    """A saga log on a server, from the side of one process."""

    def __init__(self, place: ServerPlace, keyring: Keyring | None = None, *, poll_s: float = _POLL_S) -> None:
        self._place = place
        self._keyring = keyring or Keyring()
        self._poll_s = poll_s
        self._writer_id = secrets.token_hex(8)
        self._server = Server(place.url)
        self._telling = False
        self._was_ready = False
        self._listens = False
        self.session = Session(self._server, self._ready, self.translate)

    @property
    def name(self) -> str:
        """See `Database.name`."""
        return self._place.name

    @property
    def dialect(self) -> Dialect:
        """See `Database.dialect`."""
        return PGDialect_asyncpg()  # type: ignore[no-untyped-call]  # SQLAlchemy's own

    @property
    def writer_id(self) -> str:
        """See `Database.writer_id`."""
        return self._writer_id

    @property
    def poll_s(self) -> float:
        """See `Database.poll_s`."""
        return self._poll_s if self.session.is_up else min(self._poll_s, _POLL_DEAF_S)

    def used(self) -> AbstractContextManager[None]:
        """See `Database.used`: nothing of it lies here."""
        return nullcontext()

    def writer(self) -> Worker:
        """See `Database.writer`."""
        begin = writes(lock_of(self._writer_id))
        return ConnectionTask(
            "saga log writer", partial(self._connect_writer, begin), self.translate, answers_within_s=_WRITES_WITHIN_S
        )

    def reader(self) -> Worker:
        """See `Database.reader`."""
        return Readers(
            lambda: ConnectionTask(
                "saga log reader",
                partial(self._connect, READS),
                self.translate,
                answers_within_s=_READS_WITHIN_S,
                close_within_s=_READS_END_WITHIN_S,
            )
        )

    def wait_for_end(self, connection: Connection, append: Append) -> None:
        """See `Database.wait_for_end`: each transaction of a writer holds its lock until it has ended."""
        key = lock_of(append.batch_id.partition(".")[0])
        with connection.begin():
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock_shared({key})")

    def alone(self, connection: Connection) -> None:
        """See `Database.alone`."""
        connection.exec_driver_sql("LOCK TABLE saga_log_meta IN EXCLUSIVE MODE")

    def translate(self, error: Exception) -> Exception:
        """See `Database.translate`."""
        return trouble.translate(error, self.name)

    def version(self, connection: Connection) -> object:
        """See `Database.version`: it counts transactions of the whole server, so it may change for nothing."""
        with connection.begin():
            text = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
            return connection.exec_driver_sql(text).scalar_one()

    async def listen(self, announce: Callable[[], None]) -> None:
        """See `Database.listen`."""

        def heard(by: str) -> None:
            if by != self._writer_id:
                announce()

        if not self._listens:
            self._listens = True
            self.session.hear(heard)
        self.session.start()
        await self.session.up(_LISTENS_WITHIN_S)

    def tell(self, reader: Worker) -> None:
        """See `Database.tell`: in a transaction of its own, for all that commit with a notice wait for each other."""
        if self._telling:
            return
        self._telling = True

        def notify(connection: Connection) -> None:
            self._telling = False
            run(connection, f"SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}, '{self._writer_id}'")

        def told(failure: object) -> None:
            del failure  # then the others find out by looking
            self._telling = False

        reader.submit(notify).add_done_callback(lambda future: told(future.exception()))

    def overwrite(self, connection: Connection) -> bool:
        """See `Database.overwrite`: what the server does with its files is its own."""
        del connection
        return True

    def free_space(self, connection: Connection) -> int:
        """See `Database.free_space`: the server's autovacuum does it."""
        keeping.forget_keys(connection)
        return 0

    async def _connect_writer(self, begin: str) -> AsyncConnection:
        connection = await self._connect(begin)
        try:
            with answering(await driver_connection(connection), CONNECT_WITHIN_S):
                await connection.run_sync(run, BY_INDEX)
        except BaseException:
            await discard(connection)
            raise
        return connection

    async def _connect(self, begin: str) -> AsyncConnection:
        """A connection that can be used: the schema is this code's, and the keys that it needs are here."""
        connection = await self._server.connect(READS)
        try:
            raw = await driver_connection(connection)
            with answering(raw, CONNECT_WITHIN_S):
                is_current = await connection.run_sync(schema.is_current, self.name)
            if not is_current:
                await self._make_current()
            with answering(raw, CONNECT_WITHIN_S):
                self._keyring.require(await connection.run_sync(schema.keys_used))
            self._was_ready = True
            return await connection.execution_options(saga_begin=begin)
        except BaseException:
            await discard(connection)
            raise

    async def _ready(self) -> None:
        if not self._was_ready:
            await discard(await self._connect(READS))

    async def _make_current(self) -> None:
        migrating = await self._server.connect(EACH_SEES_ALL)
        try:
            with answering(await driver_connection(migrating), _MIGRATES_WITHIN_S) as watchdog:
                try:
                    await migrating.run_sync(schema.make_current, self.name)
                except DBAPIError as error:
                    if watchdog.when() > asyncio.get_running_loop().time():
                        raise
                    raise trouble.unfinished(self.name, _MIGRATES_WITHIN_S) from error
        finally:
            await discard(migrating)
