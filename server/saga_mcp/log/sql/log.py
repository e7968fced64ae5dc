"""`SqlSagaLog`: the port, put together from a writer, a reader and what is particular to the kind of database.

One connection writes batches, others read snapshots, so reads go on while any process writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
from sqlalchemy import Connection

from saga_mcp.domain.errors import LogConflict, SagaNotFound, SagaQuarantined
from saga_mcp.domain.holding import Holder
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.saga_decisions import wipe
from saga_mcp.domain.state import Saga
from saga_mcp.log.keeping import Checked, Ended
from saga_mcp.log.outbox import Outbox
from saga_mcp.log.owners import FileOwners, directory_of
from saga_mcp.log.port import Append, Decide, Decided, Decision, PairRow, Record, SagaRow, StepLock
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql import driver_names, files, keeping, pauses, reads
from saga_mcp.log.sql.batch import Batches
from saga_mcp.log.sql.connect import SETUP_WAIT_S
from saga_mcp.log.sql.database import Database
from saga_mcp.log.sql.delivering import SqlOutbox
from saga_mcp.log.sql.folds import Folds
from saga_mcp.log.sql.holds import Holds
from saga_mcp.log.sql.quarantine import Quarantine
from saga_mcp.log.sql.rows import EventRows
from saga_mcp.log.sql.sqlite import SqliteDatabase
from saga_mcp.log.sql.tables import EPOCH
from saga_mcp.log.sql.worker import Busy, Work, Worker
from saga_mcp.log.sql.writer import Writer

T = TypeVar("T")


class SqlSagaLog:
    """The saga log in a SQL database. Made by `open` and `over`."""

    def __init__(
        self, database: Database, writer: Writer, reader: Worker, folds: Folds, rows: EventRows, batches: Batches
    ) -> None:
        self._database = database
        self._writer = writer
        self._reader = reader
        self._rows = rows
        self._batches = batches
        self._reads = reads.Reads(database.dialect, folds, rows)
        self._holds = Holds(database.dialect, self._reads)
        self._quarantine = Quarantine(self._read, writer.aside, batches)
        self._change = 1
        self._changed = asyncio.Event()
        self._version: object | None = None
        self._polled_at = -math.inf
        self._polling = anyio.Lock()
        self.outbox: Outbox = SqlOutbox(self._read, writer.aside, batches.checked)

    @classmethod
    def open(  # noqa: PLR0913 - every one with a default, and all but two for tests
        cls,
        path: Path,
        *,
        keyring: Keyring | None = None,
        make_parent: bool = False,
        busy_budget_s: float = 10.0,
        poll_s: float = 0.15,
        cached_sagas: int = 128,
        outbox: bool = False,
        clock: Callable[[], float] = time.time,
        file_system_of: files.FileSystemOf = files.file_system_of,
    ) -> contextlib.AbstractAsyncContextManager[SqlSagaLog]:
        """Serve the log of a SQLite file until the block ends; what is not said here is as with `over`.

        Args:
            path: the file.
            keyring: see `over`.
            make_parent: create the file's directory too; for the default location only.
            busy_budget_s: see `over`.
            poll_s: how often, in seconds, `wait_for_change` looks for appends of other processes.
            cached_sagas: see `over`.
            outbox: see `over`.
            clock: see `over`.
            file_system_of: names the type of file system of a path.
        """
        keys = keyring or Keyring()
        database = SqliteDatabase.of(path, keys, make_parent=make_parent, poll_s=poll_s, file_system_of=file_system_of)
        return cls.over(
            database, keyring=keys, busy_budget_s=busy_budget_s, cached_sagas=cached_sagas, outbox=outbox, clock=clock
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def over(
        cls,
        database: Database,
        *,
        keyring: Keyring | None = None,
        busy_budget_s: float = 10.0,
        cached_sagas: int = 128,
        outbox: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> AsyncGenerator[SqlSagaLog]:
        """Serve the log of a database until the block ends.

        Nothing is touched before the first use, and what fails is tried anew at the next: a server can be up and answer
        `log_unavailable` while its database is locked, full, down or being repaired, and needs no restart afterwards.

        Args:
            database: where it is.
            keyring: what values are encrypted with; default: they are not.
            busy_budget_s: how long, in seconds, a decision waits for a lock, or for a connection.
            cached_sagas: how many folded sagas are kept in memory.
            outbox: keep alerts until somebody has delivered them; otherwise they are told to nobody.
            clock: seconds since the epoch, for the times that people read.
        """
        rows = EventRows(keyring or Keyring())
        folds = Folds(cached_sagas)
        reader = database.reader()
        batches = Batches(database.dialect, folds, rows, clock=clock, outbox=outbox)
        writer = Writer(batches, database, database.writer(), reader, busy_budget_s=busy_budget_s)
        log = cls(database, writer, reader, folds, rows, batches)
        try:
            with database.used():
                yield log
        finally:
            await log.aclose()

    async def aclose(self) -> None:
        """Write what waits, then end all connections. Idempotent; done by `over` at the end of its block."""
        await self._writer.aclose()
        await self._reader.aclose()

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        """See `SagaLog.decide`."""
        decided = await self._quarantine.noted(self._writer.decide(saga_id, decide))
        if decided.saga is not decided.before:
            self._tell()
        return decided

    async def stored(self, append: Append) -> bool:
        """See `SagaLog.stored`."""

        def look(connection: Connection) -> bool:
            self._database.wait_for_end(connection, append)
            return reads.was_stored(connection, append)

        stored = await self._read(look)
        if stored:
            self._tell()
        return stored

    async def load(self, saga_id: str) -> Saga:
        """See `SagaLog.load`."""
        return await self._quarantine.noted(self._read(lambda connection: self._reads.load(connection, saga_id)))

    async def history(self, saga_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[Record]:
        """See `SagaLog.history`."""
        reading = self._read(lambda connection: self._reads.history(connection, saga_id, after_seq, limit))
        return await self._quarantine.noted(reading)

    async def sagas(
        self,
        realm: str,
        *,
        caller: str | None = None,
        conversation: str | None = None,
        open_only: bool = False,
        attention_only: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[SagaRow]:
        """See `SagaLog.sagas`."""
        return await self._read(
            lambda connection: reads.sagas(
                connection,
                realm,
                caller=caller,
                conversation=conversation,
                open_only=open_only,
                attention_only=attention_only,
                limit=limit,
                offset=offset,
            )
        )

    async def realms(self) -> Mapping[str, int]:
        """See `SagaLog.realms`."""
        return await self._read(reads.realms)

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        """See `SagaLog.busy_sagas`."""
        return await self._read(lambda connection: reads.busy_sagas(connection, realm))

    async def saga_ids(self) -> Sequence[str]:
        """See `LogKeeping.saga_ids`."""
        return await self._read(keeping.saga_ids)

    async def check(self, saga_id: str) -> Checked | None:
        """See `LogKeeping.check`."""
        checked = await self._read(lambda connection: keeping.check_saga(connection, self._reads, self._rows, saga_id))
        if checked is not None:
            await self._quarantine.checked(checked)
        return checked

    async def ended(
        self, realm: str, before: float, *, committed_before: float, with_values: bool = False
    ) -> Sequence[Ended]:
        """See `LogKeeping.ended`."""
        return await self._read(
            lambda connection: keeping.ended(connection, realm, before, committed_before, with_values=with_values)
        )

    async def prune(self, saga_id: str, *, alerts_too: bool) -> str:
        """See `LogKeeping.prune`."""
        now, reads_of_writer = time.time(), self._batches.reads
        return await self._writer.aside(
            lambda connection: keeping.prune(
                connection, reads_of_writer, self._rows, saga_id, now, alerts_too=alerts_too
            )
        )

    async def wipe(self, saga_id: str) -> str:
        """See `LogKeeping.wipe`."""
        try:
            checked = await self.check(saga_id)
            if checked is None:
                return ""  # somebody pruned it meanwhile
            if not checked.as_written:
                return keeping.CHANGED
            decided = await self.decide(saga_id, lambda saga: Decision(events=wipe(saga)))
        except (SagaNotFound, SagaQuarantined, LogConflict) as error:
            return str(error)
        return "" if decided.saga.wiped else keeping.NOT_AT_REST

    async def overwrite(self) -> bool:
        """See `LogKeeping.overwrite`."""
        return await self._writer.aside(self._database.overwrite)

    async def free_space(self) -> int:
        """See `LogKeeping.free_space`."""
        return await self._writer.aside(self._database.free_space)

    async def saga_of_key(self, realm: str, caller: str, key: str) -> str | None:
        """See `SagaLog.saga_of_key`."""
        return await self._read(lambda connection: reads.saga_of_key(connection, realm, caller, key))

    async def pair(self, pair_hash: str) -> PairRow | None:
        """See `SagaLog.pair`."""
        return await self._read(lambda connection: reads.pair_row(connection, pair_hash))

    async def hmac_key(self) -> bytes:
        """See `SagaLog.hmac_key`."""
        return await self._read(reads.hmac_key)

    async def take_lock(self, wanted: StepLock, *, over: StepLock | None = None) -> StepLock:
        """See `SagaLog.take_lock`."""
        return await self._writer.aside(lambda connection: self._batches.locks.take(connection, wanted, over))

    async def drop_lock(self, lock: StepLock) -> None:
        """See `SagaLog.drop_lock`."""
        await self._writer.aside(lambda connection: self._batches.locks.drop(connection, lock))
        self._tell()

    async def holder(self, realm: str, resource: str) -> Holder | None:
        """See `SagaLog.holder`."""

        def look(connection: Connection) -> Holder | None:
            with connection.begin():
                return self._holds.holder(connection, realm, resource)

        return await self._read(look)

    async def pause(self, realm: str, pause: Pause) -> Pause:
        """See `SagaLog.pause`."""
        held = await self._writer.aside(lambda connection: pauses.put(connection, self._database.alone, realm, pause))
        self._tell()
        return held

    async def resume(self, realm: str, tool: str) -> bool:
        """See `SagaLog.resume`."""
        was = tool in await self.paused(realm)  # what is run again after a COMMIT without an answer finds it gone
        resumed = await self._writer.aside(
            lambda connection: pauses.drop(connection, self._database.alone, realm, tool)
        )
        self._tell()
        return was or resumed

    async def paused(self, realm: str) -> Mapping[str, Pause]:
        """See `SagaLog.paused`."""
        return await self._read(lambda connection: pauses.paused(connection, realm))

    async def driver_of(self, realm: str) -> str:
        """See `SagaLog.driver_of`."""
        return await self._read(lambda connection: driver_names.named(connection, realm))

    async def name_driver(self, realm: str, name: str, *, was: str) -> str:
        """See `SagaLog.name_driver`."""
        named = await self._writer.aside(
            lambda connection: driver_names.put(connection, self._database.alone, realm, was, name)
        )
        self._tell()
        return named

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        """See `SagaLog.observe`."""
        return await self._writer.observe(realm, seen, seconds)

    async def idle_sagas(self, realm: str, *, for_s: float) -> Sequence[SagaRow]:
        """See `SagaLog.idle_sagas`."""
        return await self._read(lambda connection: reads.idle_sagas(connection, realm, for_s))

    async def wait_for_change(self, seen: int = 0) -> int:
        """See `SagaLog.wait_for_change`."""
        if self._version is None:
            await self._database.listen(self._announce)
            await self._poll()
        while self._change <= seen:
            with anyio.move_on_after(self._database.poll_s):
                await self._changed.wait()
                continue
            await self._poll()
        return self._change

    async def _poll(self) -> None:
        """Look whether another process appended; several waiters share one look."""
        async with self._polling:
            if time.monotonic() - self._polled_at < self._database.poll_s / 2:
                return
            version = await self._read(self._database.version)
            self._polled_at = time.monotonic()
            known, self._version = self._version, version
            if known is not None and known != version:
                self._announce()

    def _tell(self) -> None:
        """Something changed here: let everybody look again."""
        self._announce()
        self._database.tell(self._reader)

    def _announce(self) -> None:
        self._change += 1
        self._changed.set()
        self._changed.clear()  # whoever waits is woken all the same

    async def read(self, work: Work[T]) -> T:
        """Run something that only reads, in no transaction of its own; a lock, or a lost connection, is waited out."""
        return await self._read(work)

    async def _read(self, work: Work[T]) -> T:
        give_up_at = time.monotonic() + SETUP_WAIT_S
        while True:
            try:
                return await self._reader.submit(work)
            except Busy as busy:  # rare: somebody switches a file to its write-ahead log, or a server starts anew
                if time.monotonic() > give_up_at:
                    raise busy.given_up(SETUP_WAIT_S) from busy
                await anyio.sleep(0.01)


def _real(database: Path) -> Path:
    """The file itself: processes that know it by different names have to meet in one owners' directory."""
    return database.resolve()


@contextlib.contextmanager
def claim_owner(database: Path, *, make_parent: bool = False, serves: str = "") -> Generator[FileOwners]:
    """Prove to other processes of this machine that this one lives, until the block ends; the port's `Owners`.

    Args:
        database: the file, as for `SqlSagaLog.open`.
        make_parent: as for `SqlSagaLog.open`.
        serves: realm whose sagas this process drives until it ends; commands look for it.

    Raises:
        LogUnavailable: the directory beside the database cannot be written.
    """
    path = _real(database)
    if make_parent:
        files.create_directory(path.parent)
    with contextlib.ExitStack() as held:
        try:
            owners = held.enter_context(FileOwners.claim(directory_of(path), epoch=EPOCH, serves=serves))
        except OSError as error:
            raise files.refused(directory_of(path), error) from error
        yield owners
