"""A connection and the one thread that uses it.

SQLite calls block, so each connection gets a thread, and work is handed over as whole functions: one hop for a batch,
not one per statement (DESIGN.md section 6). The caller only waits: cancelling the wait never stops the work, and no
transaction can be left open by it. The thread is a daemon, so an unclosed log cannot keep the interpreter from
exiting (SQLite rolls back what was open).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import anyio
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from saga_mcp.log.sql.trouble import LogClosed
from saga_mcp.log.sql.worker import CLOSE_WITHIN_S, HARMLESS, Translate, Work

T = TypeVar("T")


class _Job(Generic[T]):
    """A function to run, and who waits for it."""

    __slots__ = ("_done", "_loop", "_work")

    def __init__(self, work: Work[T], done: asyncio.Future[T]) -> None:
        self._work = work
        self._done = done
        self._loop = done.get_loop()

    def run(self, connection: Connection) -> None:
        result = self._work(connection)
        self._tell(lambda: self._done.set_result(result))

    def fail(self, error: BaseException) -> None:
        self._tell(lambda: self._done.set_exception(error))

    def _tell(self, settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._unless_cancelled, settle)

    def _unless_cancelled(self, settle: Callable[[], None]) -> None:
        if not self._done.done():
            settle()


class ConnectionThread:
    """The `Worker` of a connection whose calls block."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection],
        translate: Translate,
        *,
        close_within_s: float = CLOSE_WITHIN_S,
    ) -> None:
        self._close_within_s = close_within_s
        self._connect = connect
        self._translate = translate
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._closing = False
        self._ended: asyncio.Future[None] | None = None

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """See `Worker.submit`."""
        if self._closing:
            raise LogClosed("this process has closed its saga log; nothing was stored and nothing was sent")
        self._start()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(work, done))
        return done

    async def aclose(self) -> None:
        """See `Worker.aclose`."""
        if not self._closing:
            self._closing = True
            if self._thread.ident is None:
                return
            self._ended = asyncio.get_running_loop().create_future()
            self._jobs.put(None)
        if self._ended is not None:
            with anyio.move_on_after(self._close_within_s, shield=True):
                await asyncio.shield(self._ended)

    def _start(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def _serve(self) -> None:
        connection: Connection | None = None
        while (job := self._jobs.get()) is not None:
            connection = self._run(job, connection)
            del job  # may hold an error, and with that all its frames: not to be kept until the next one comes
        _close(connection)
        ended = self._ended
        if ended is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                ended.get_loop().call_soon_threadsafe(_set, ended)

    def _run(self, job: _Job[Any], connection: Connection | None) -> Connection | None:
        """Do it; the connection for the next one, if there still is one."""
        try:
            if connection is None:
                connection = self._connect()
            job.run(connection)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller, who raises it
            failure = self._translate(error) if isinstance(error, DBAPIError) else error
            job.fail(failure)
            if not isinstance(failure, HARMLESS):
                _close(connection)
                return None
        return connection


def _close(connection: Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(DBAPIError):  # closing is all that is left to do with it
            connection.close()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
