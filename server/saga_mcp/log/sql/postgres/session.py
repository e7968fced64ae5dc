"""The one connection of a process that lasts: over it others are heard, and by it they see that this process lives.

Outside of any pool, and kept open as long as the process: what is lost is made anew, again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.sql.postgres.connecting import Server, answering
from saga_mcp.log.sql.postgres.trouble import pooled
from saga_mcp.log.sql.trouble import LogPooled
from saga_mcp.log.sql.worker import Busy

_log = structlog.get_logger(__name__)

CHANNEL: Final = "saga_mcp"
_SESSION: Final = "SELECT pg_backend_pid()"
_POOLER_ROUNDS: Final = 3
PROBE_EVERY_S: Final = 5.0
ANSWERS_WITHIN_S: Final = 5.0
_GOODBYE_S: Final = 1.0
_FIRST_DELAY_S: Final = 0.02
_LONGEST_DELAY_S: Final = 2.0

Heard = Callable[[str], None]
"""Is given what was told: by whom."""
Step = Callable[[Any], Awaitable[None]]
"""Does something over the driver's connection."""


class Session:
    """Keeps a connection open in a task of its own, from `start` to `aclose`."""

    def __init__(
        self, server: Server, ready: Callable[[], Awaitable[None]], translate: Callable[[Exception], Exception]
    ) -> None:
        self._server = server
        self._ready = ready
        self._translate = translate
        self._heard: list[Heard] = []
        self._claim: tuple[Step, Step, Callable[[], None]] | None = None
        self._goodbye: Step | None = None
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._ended = asyncio.Event()
        """Set when the connection has ended, or is to be given up."""
        self.trouble: LogUnavailable | None = None
        """Why there is no connection, if it was tried."""

    @property
    def is_up(self) -> bool:
        """Whether it is connected, as far as is known."""
        return self._up.is_set()

    def hear(self, heard: Heard) -> None:
        """Call `heard` for what others tell from now on, and, with no name, when something may have been missed."""
        self._heard.append(heard)

    def claim_with(self, take: Step, probe: Step, lost: Callable[[], None], leave: Step) -> None:
        """Hold a claim over it.

        Args:
            take: takes it, whenever there is a new connection.
            probe: makes sure that it is held; raises where it is not.
            lost: called when the connection has ended.
            leave: gives it back, at the end.
        """
        self._claim = take, probe, lost
        self._goodbye = leave

    def start(self) -> None:
        """Begin to keep it open. Idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep(), name="saga log session")

    async def up(self, within_s: float) -> bool:
        """Wait until it is connected, at most that long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._up.wait()
        return self.is_up

    async def aclose(self) -> None:
        """End it. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            self._closing = True
            self._ended.set()
            if self.is_up:
                await asyncio.wait([task], timeout=_GOODBYE_S)
            task.cancel()
            await asyncio.wait([task])

    async def _keep(self) -> None:
        failures = 0
        while True:
            raw: Any = None
            try:
                await self._ready()
                raw = await self._server.connect_raw()
                with answering(raw, ANSWERS_WITHIN_S):
                    await self._begin(raw)
                failures = 0
                await self._use(raw)
                if self._closing:
                    if self._goodbye is not None:
                        await self._goodbye(raw)
                    return
            except Exception as error:  # noqa: BLE001 - tried again for ever: it is the way to everybody else
                failures += 1
                self._note(error)
            finally:
                was_up = self.is_up
                self._up.clear()
                if raw is not None:
                    raw.terminate()
                if self._claim is not None and was_up:
                    self._claim[2]()
            longest_s = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2**failures)
            await asyncio.sleep(random.uniform(longest_s / 2, longest_s))  # noqa: S311 - jitter, not a secret

    def _note(self, error: Exception) -> None:
        failure = self._translate(error)
        if isinstance(failure, Busy):
            failure = failure.given_up(0.0)
        self.trouble = failure if isinstance(failure, LogUnavailable) else None
        if self.trouble is None:
            _log.error("log_session_failed", exc_info=error)
        else:
            _log.warning("log_unavailable", reason=str(self.trouble))

    async def _begin(self, raw: Any) -> None:  # noqa: ANN401 - asyncpg's connection
        ended = self._ended = asyncio.Event()

        def on_end(_: object) -> None:
            ended.set()

        raw.add_termination_listener(on_end)
        await self.refuse_pooler(self._server, raw)
        await raw.execute("SET synchronous_commit = off")  # nothing that is written over it has to last
        await raw.add_listener(CHANNEL, self._on_notice)
        if self._claim is not None:
            await self._claim[0](raw)
        self.trouble = None
        self._up.set()
        for heard in self._heard:
            heard("")

    @staticmethod
    async def refuse_pooler(server: Server, raw: Any) -> None:  # noqa: ANN401 - see above
        """Make sure that a connection keeps the session that it has: locks are of the session.

        Raises:
            LogPooled: it does not.
        """
        session = await raw.fetchval(_SESSION)
        if raw.get_server_pid() == session:
            return  # it is the server itself that answers
        other = await server.connect_raw()
        try:
            with answering(other, ANSWERS_WITHIN_S):
                for _ in range(_POOLER_ROUNDS):
                    async with other.transaction():  # takes a session of the pool; which one did we have?
                        await other.fetchval("SELECT 1")
                        if await raw.fetchval(_SESSION) != session:
                            raise LogPooled(pooled())
        except BufferError as error:  # the driver reads the answer to a statement that another session has prepared
            raise LogPooled(pooled()) from error
        finally:
            other.terminate()

    async def _use(self, raw: Any) -> None:  # noqa: ANN401 - see above
        with answering(raw, ANSWERS_WITHIN_S):
            pid = await raw.fetchval(_SESSION)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_EVERY_S):
                    await self._ended.wait()
                return
            with answering(raw, ANSWERS_WITHIN_S):
                if await raw.fetchval(_SESSION) != pid:
                    raise LogPooled(pooled())
                if self._claim is not None:
                    await self._claim[1](raw)

    def _on_notice(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for heard in self._heard:
            heard(str(payload))
