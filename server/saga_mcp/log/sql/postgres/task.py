"""A connection and the task that uses it: the `Worker` of a connection whose calls are awaited.

The task is one of the event loop, in nobody's scope: no request can cancel what runs on the connection, and none can
leave a transaction open on it. Work is the same synchronous functions as over any other database; they wait for the
server without holding up the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from saga_mcp.log.sql.postgres.connecting import answering, driver_connection
from saga_mcp.log.sql.trouble import LogClosed
from saga_mcp.log.sql.worker import CLOSE_WITHIN_S, HARMLESS, Translate, Work

T = TypeVar("T")

_LONGEST_DELAY_S: Final = 0.5
"""How far apart connecting is tried at most, while somebody waits."""
_GOODBYE_S: Final = 1.0
"""How long a server may take to end a session that it is asked to end."""


class ConnectionTask:
    """Runs functions over one connection, one after the other."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Awaitable[AsyncConnection]],
        translate: Translate,
        *,
        answers_within_s: float,
        close_within_s: float = CLOSE_WITHIN_S,
    ) -> None:
        self._name = name
        self._connect = connect
        self._translate = translate
        self._answers_within_s = answers_within_s
        """A server that has not answered by then is taken for gone, or the way to it."""
        self._close_within_s = close_within_s
        self._jobs: deque[tuple[Work[Any], asyncio.Future[Any]]] = deque()
        self._connection: AsyncConnection | None = None
        self._failures = 0
        """How often in a row it could not connect."""
        self._serving: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def waiting(self) -> int:
        """How much there is to do."""
        return len(self._jobs) + (self._serving is not None)

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """See `Worker.submit`."""
        if self._closing:
            raise LogClosed("this process has closed its saga log; nothing was stored and nothing was sent")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.append((work, done))
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve(), name=self._name)
        return done

    async def aclose(self) -> None:
        """See `Worker.aclose`."""
        self._closing = True
        with anyio.move_on_after(self._close_within_s, shield=True):
            while self._serving is not None:
                await asyncio.wait([self._serving])
        connection, self._connection = self._connection, None
        if connection is not None:
            with anyio.move_on_after(_GOODBYE_S, shield=True), contextlib.suppress(Exception):
                if self._serving is None:
                    await connection.close()
                    return
            with anyio.CancelScope(shield=True):
                await discard(connection)

    async def _serve(self) -> None:
        try:
            while self._jobs:
                work, done = self._jobs.popleft()
                await self._run(work, done)
                del work, done  # may hold an error, and with that all its frames
        finally:
            self._serving = None

    async def _run(self, work: Work[T], done: asyncio.Future[T]) -> None:
        try:
            result = await self._done(work)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller, who raises it
            failure = self._translate(error) if isinstance(error, Exception) else error
            if not isinstance(failure, HARMLESS) or self._is_closed():
                await self._discard()
            if not done.done():
                done.set_exception(failure)
        else:
            if not done.done():
                done.set_result(result)

    async def _done(self, work: Callable[[Connection], T]) -> T:
        if self._connection is None:
            if self._failures:
                await asyncio.sleep(min(_LONGEST_DELAY_S, 0.02 * 2**self._failures))
            self._failures += 1
            self._connection = await self._connect()
            self._failures = 0
        with answering(await driver_connection(self._connection), self._answers_within_s):
            return await self._connection.run_sync(work)

    def _is_closed(self) -> bool:
        return self._connection is not None and is_closed(self._connection)

    async def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await discard(connection)


def is_closed(connection: AsyncConnection) -> bool:
    """Whether there is nobody at the other end any more."""
    sync = connection.sync_connection
    if sync is None or sync.closed or sync.invalidated:  # to ask further would connect anew
        return True
    raw: Any = sync.connection.driver_connection
    return bool(raw.is_closed())


async def discard(connection: AsyncConnection) -> None:
    """End a connection, whatever state it is in: what was open on it is undone by the server."""
    with contextlib.suppress(Exception):  # closing is all that is left to do with it
        if not is_closed(connection):
            (await driver_connection(connection)).terminate()
    with contextlib.suppress(Exception):
        await connection.close()
