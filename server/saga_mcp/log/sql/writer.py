"""Group commit: what waits is written in one transaction (DESIGN.md section 6).

Who comes while nothing is being written writes at once, alone: that saves a task and two turns of the event loop. Who
comes meanwhile queues up for a task that writes what waits. No caller can cancel what another one waits for; one that
gives up its own decision before it has begun to be written, because the lock is taken, has stored nothing. Here is
decided when a batch starts, how long a taken lock is waited for, and who is told what; the batch itself runs elsewhere
as one function.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import anyio
from sqlalchemy import Connection

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.port import Append, AppendUnsettled, Decide, Decided
from saga_mcp.log.sql.batch import Batches, CommitUnsettled, Outcome
from saga_mcp.log.sql.database import Database
from saga_mcp.log.sql.reads import was_stored
from saga_mcp.log.sql.trouble import NOTHING, LogClosed, LogUnreachable, StatementRefused
from saga_mcp.log.sql.worker import CLOSE_WITHIN_S, Busy, Work, Worker

LARGEST_BATCH = 256
FIRST_DELAY_S = 0.002
LONGEST_DELAY_S = 0.05


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A decision that waits to be written, and who waits for it."""

    saga_id: str
    decide: Decide
    done: asyncio.Future[Decided]
    since: float

    def settle(self, outcome: Outcome) -> None:
        if self.done.done():  # its caller stopped waiting
            return
        if isinstance(outcome, Decided):
            self.done.set_result(outcome)
        else:
            # A future does not take StopIteration, which a decision raises by a `next` without a default.
            self.done.set_exception(RuntimeError(repr(outcome)) if isinstance(outcome, StopIteration) else outcome)


class Writer:
    """The one writer of a process."""

    def __init__(
        self,
        batches: Batches,
        database: Database,
        worker: Worker,
        read_back: Worker,
        *,
        busy_budget_s: float,
    ) -> None:
        self._batches = batches
        self._database = database
        self._worker = worker
        self._read_back = read_back
        self._busy_budget_s = busy_budget_s
        self._attempts = itertools.count(1)
        self._waiting: list[_Request] = []
        self._writing = False
        self._task: asyncio.Task[None] | None = None
        """Writes what waits; kept, for the event loop forgets tasks that nobody holds."""
        self._closing = False
        self._at_rest: asyncio.Future[None] | None = None
        """Set when nothing is being written any more, where somebody waits for that."""

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        """Write a decision and wait for its outcome; the port's `decide`."""
        if self._closing:
            raise LogClosed(f"this process is closing its saga log; {NOTHING}")
        done: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        request = _Request(saga_id, decide, done, time.monotonic())
        if self._writing:
            self._waiting.append(request)
        else:
            self._writing = True
            try:
                await self._write([request])
            finally:
                self._go_on()
        return await done

    def _go_on(self) -> None:
        """Leave what came meanwhile to a task."""
        if self._waiting:
            self._task = asyncio.create_task(self._drain(), name="saga log writer")
            return
        self._writing = False
        if self._at_rest is not None and not self._at_rest.done():
            self._at_rest.set_result(None)

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        """Raise a realm's watched time in a transaction of its own; the port's `observe`."""
        return await self.aside(lambda connection: self._batches.observe(connection, realm, seen, seconds))

    async def aside(self, work: Callable[[Connection], T]) -> T:
        """Do something small in a transaction of its own, beside the decisions.

        It runs again where its COMMIT got no answer, so what it returns must be the same for one who did it already.
        """
        return await self._patiently(self._worker, work)

    async def _patiently(self, worker: Worker, work: Work[T]) -> T:
        since = time.monotonic()
        unsettled = False
        while True:
            try:
                return await worker.submit(work)
            except Busy as busy:
                unsettled = unsettled or busy.unsettled
                waited_s = time.monotonic() - since
                if self._closing or waited_s >= self._busy_budget_s:
                    raise self._unknown() if unsettled else busy.given_up(waited_s) from busy
                await asyncio.sleep(random.uniform(0, LONGEST_DELAY_S))  # noqa: S311 - jitter, not a secret

    def _unknown(self) -> LogUnavailable:
        return LogUnreachable(
            f"saga log {self._database.name}: its server did not answer to the last write, and cannot be reached now, "
            "so it is not known whether that was stored. Look before you try again; `saga-mcp doctor` tells more."
        )

    async def aclose(self) -> None:
        """Write what waits, give up on a taken lock, accept nothing new, and end the connection."""
        self._closing = True
        if self._writing:
            self._at_rest = asyncio.get_running_loop().create_future()
            with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
                await self._at_rest
        await self._worker.aclose()

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
            await self._write(batch)
            await asyncio.sleep(0)  # lets those who were just answered join the next batch
        self._go_on()

    async def _write(self, batch: Sequence[_Request]) -> None:
        delay_s = FIRST_DELAY_S
        while batch:
            try:
                outcomes = await self._attempt(batch)
            except Busy as busy:
                batch = self._without_expired(batch, busy)
                await asyncio.sleep(random.uniform(0, delay_s))  # noqa: S311 - jitter, not a secret
                delay_s = min(delay_s * 2, LONGEST_DELAY_S)
            except Exception as error:  # noqa: BLE001 - raised to every caller of the batch
                if len(batch) > 1 and (isinstance(error, StatementRefused) or not isinstance(error, LogUnavailable)):
                    for request in batch:  # one of them is to blame: the others must not suffer for it
                        await self._write([request])
                else:
                    for request in batch:
                        request.settle(error)
                return
            else:
                for request, outcome in zip(batch, outcomes, strict=True):
                    request.settle(outcome)
                return

    async def _attempt(self, batch: Sequence[_Request]) -> Sequence[Outcome]:
        batch_id = f"{self._database.writer_id}.{next(self._attempts)}"
        decisions = [(request.saga_id, request.decide) for request in batch]
        try:
            return await self._worker.submit(lambda connection: self._batches.run(connection, decisions, batch_id))
        except CommitUnsettled as unsettled:
            return await self._settle(unsettled)

    async def _settle(self, unsettled: CommitUnsettled) -> Sequence[Outcome]:
        """Read back, on another connection, whether a failed COMMIT stored the batch after all."""
        mark = unsettled.mark
        try:
            stored = await self._patiently(self._read_back, lambda connection: self._was_stored(connection, mark))
        except Exception:  # noqa: BLE001 - whatever it is, the batch may be stored
            cause = unsettled.cause
            message = (
                f"saga log {self._database.name}: the last write did not answer ({getattr(cause, 'orig', cause)}), and "
                "it cannot be read now, so it is not known whether that was stored. Look with saga_status before you "
                "try again; `saga-mcp doctor` tells more."
            )
            return [
                AppendUnsettled(message, mark, outcome) if isinstance(outcome, Decided) else outcome
                for outcome in unsettled.written.outcomes
            ]
        if stored:
            return unsettled.written.outcomes
        raise self._database.translate(unsettled.cause)

    def _was_stored(self, connection: Connection, mark: Append) -> bool:
        self._database.wait_for_end(connection, mark)
        return was_stored(connection, mark)

    def _without_expired(self, batch: Sequence[_Request], busy: Busy) -> list[_Request]:
        now = time.monotonic()
        kept: list[_Request] = []
        for request in batch:
            waited_s = now - request.since
            if self._closing or waited_s >= self._busy_budget_s:
                request.settle(busy.given_up(waited_s))
            else:
                kept.append(request)
        return kept
