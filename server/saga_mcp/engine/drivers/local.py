"""The default driver: tasks of this process, and a scan for what dead processes left behind (SEMANTICS.md S3.5, S10.4).

Serve first, recover in the background: the scan runs beside everything else, and each saga is driven in a task of its
own, so that a bad one stops no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.duties import busy, duties
from saga_mcp.domain.errors import DrivenOtherwise, LogConflict, LogUnavailable, SagaQuarantined
from saga_mcp.domain.hosts import done_on
from saga_mcp.domain.living import Life
from saga_mcp.engine.drivers.leaving import LeftToOthers
from saga_mcp.engine.drivers.rounds import TROUBLE, Course, Rounds, ToolMissing
from saga_mcp.engine.drivers.tenure import LOCAL, Tenure
from saga_mcp.engine.hosts import AwaitedHosts
from saga_mcp.engine.port import Allowances, Resender
from saga_mcp.engine.supervise import wait_for
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import SagaRow

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Drive:
    """One saga being driven by this process."""

    course: Course = field(default_factory=Course)
    rested: anyio.Event = field(default_factory=anyio.Event)


class LocalDriver:
    """Drives the sagas of this process, and those of processes that are proved dead."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._tenure = Tenure(workshop, LOCAL)
        self._rounds = Rounds(workshop, tasks)
        self._awaited = AwaitedHosts(workshop)
        self._left = LeftToOthers(workshop)
        self._drives: dict[str, _Drive] = {}
        self._trouble: dict[str, tuple[int, float]] = {}
        self._changed = anyio.Event()
        self._watched = anyio.Event()
        self._waiting = 0
        """How many wait here for a change: for sagas that others drive, and for something to be due."""
        self._stopping = False

    @property
    def trouble(self) -> str:
        """See `SagaDriver.trouble`."""
        other = self._shop.otherwise
        return f'the driver of its realm is "{other}", and the config of this server says "{LOCAL}"' if other else ""

    def start(self, resender: Resender, allowances: Allowances) -> None:
        """Begin to look after sagas, in the background."""
        self._rounds.start(resender, allowances)
        self._tasks.start_soon(self._watch)
        self._tasks.start_soon(self._scan)

    def stop(self) -> None:
        """Begin no new undo."""
        self._stopping = True
        self._rounds.stop()
        for drive in self._drives.values():
            drive.course.wake.set()

    async def stopped(self) -> None:
        """Return when what was under way is recorded."""
        while self._drives:
            await next(iter(self._drives.values())).rested.wait()

    async def wake(self, saga_id: str) -> None:
        """Drive the saga, or let the task that does look again."""
        drive = self._drives.get(saga_id)
        if drive is not None:
            drive.course.wake.set()
        elif self._shop.drives and not self._shop.otherwise and not self._stopping:
            drive = self._drives[saga_id] = _Drive()
            self._tasks.start_soon(self._run, saga_id, drive)

    async def rest(self, saga_id: str) -> None:
        """Return when nothing of the saga runs or is due any more, whoever drives it."""
        while True:
            drive = self._drives.get(saga_id)
            if drive is not None:
                await drive.rested.wait()
            changed = self._changed
            if not busy(await self._shop.log.load(saga_id)):
                return
            if saga_id not in self._drives:
                await self._until(changed, self._shop.settings.recovery_every_s)

    async def _until(self, changed: anyio.Event, within_s: float) -> None:
        self._waiting += 1
        self._watched.set()
        try:
            await wait_for(changed, within_s, self._shop.clock)
        finally:
            self._waiting -= 1

    # --- one saga -----------------------------------------------------------------------------------------------------

    async def _run(self, saga_id: str, drive: _Drive) -> None:
        try:
            await self._drive(saga_id, drive.course)
            self._trouble.pop(saga_id, None)
        except SagaQuarantined as error:
            _log.error("saga_quarantined", saga_id=saga_id, reason=error.reason)
            self._leave_alone(saga_id)
        except (LogUnavailable, LogConflict, DrivenOtherwise) as error:
            _log.warning("log_unavailable", saga_id=saga_id, reason=str(error))
            self._leave_alone(saga_id)
        except Exception:  # noqa: BLE001 - a bug in driving one saga must not end the others; the scan comes back to it
            _log.exception("driving_failed", saga_id=saga_id)
            self._leave_alone(saga_id)
        finally:
            del self._drives[saga_id]
            drive.rested.set()

    def _leave_alone(self, saga_id: str) -> None:
        times = self._trouble.get(saga_id, (0, 0.0))[0] + 1
        self._trouble[saga_id] = (times, self._shop.clock.now() + TROUBLE.delay_s(times))

    async def _drive(self, saga_id: str, course: Course) -> None:
        if await self._left.holds(saga_id):
            return
        while not self._stopping and self._shop.claimed and await self._tenure.holds():
            try:
                look = await self._rounds.look(saga_id, course)
            except ToolMissing as missing:
                if await self._left.leave(saga_id, str(missing)):
                    return
                course.makes_do = True
                continue
            if not look.ours:
                return  # somebody living drives it
            if look.acted:
                continue
            # What was appended here after this look has set `wake` again; others wake their own drivers.
            if not busy(look.saga) and not course.beside and not course.wake.is_set():
                return
            await self._until(course.wake, self._pause(look.again_in_s))

    def _pause(self, again_in_s: float) -> float:
        every_s = self._shop.settings.recovery_every_s
        if not every_s:
            return again_in_s if again_in_s < math.inf else 0.0
        return min(every_s, again_in_s)

    # --- everybody's sagas --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Pass on that the log changed, by whatever process, to whoever waits here; most of the time that is nobody.

        Who begins to wait learns of what changed since the last look here, too. Who rolls back does not wait, and
        has nothing from being told of each of its own appends.
        """
        seen = 0
        while True:
            if not self._waiting:
                self._watched = anyio.Event()
                await self._watched.wait()
            try:
                seen = await self._shop.log.wait_for_change(seen)
            except LogUnavailable:
                await self._shop.clock.sleep(self._shop.settings.recovery_every_s)
            except Exception:  # noqa: BLE001 - the watch goes on for ever
                _log.exception("watch_failed")
                await self._shop.clock.sleep(self._shop.settings.recovery_every_s)
            changed, self._changed = self._changed, anyio.Event()
            changed.set()
            for drive in self._drives.values():
                drive.course.wake.set()

    async def _scan(self) -> None:
        """Look for sagas that nobody living drives, at start and for ever after."""
        while not self._stopping:
            if self._shop.claim_lost:
                _log.error("claim_lost", owner=self._shop.owners.me)
                return
            try:
                if self._shop.claimed:
                    await self._look_around()
            except LogUnavailable as error:
                _log.warning("log_unavailable", reason=str(error))
            except Exception:  # noqa: BLE001 - the scan goes on for ever
                _log.exception("recovery_scan_failed")
            await self._shop.clock.sleep(self._shop.settings.recovery_every_s)

    async def _look_around(self) -> None:
        rows = await self._shop.log.busy_sagas(self._shop.settings.realm)
        for kept in (self._awaited, self._left):
            kept.keep({row.id for row in rows})
        if not rows or not await self._tenure.holds():
            return
        lives = await self._shop.lives({row.driver for row in rows} - {""})
        for row in rows:
            if lives.get(row.driver) is not Life.LIVES:
                await self._look_after(row)

    async def _look_after(self, row: SagaRow) -> None:
        """One bad saga must not stop the recovery of the others."""
        try:
            await self._consider(row)
        except SagaQuarantined as error:
            _log.error("saga_quarantined", saga_id=row.id, reason=error.reason)
            self._leave_alone(row.id)
        except (LogConflict, DrivenOtherwise) as error:
            _log.warning("log_unavailable", saga_id=row.id, reason=str(error))
            self._leave_alone(row.id)
        except LogUnavailable:
            raise
        except Exception:  # noqa: BLE001 - see above
            _log.exception("recovery_failed", saga_id=row.id)
            self._leave_alone(row.id)

    async def _consider(self, row: SagaRow) -> None:
        if row.id in self._drives or self._shop.clock.now() < self._trouble.get(row.id, (0, 0.0))[1]:
            return
        if self._awaited.is_known(row.id, row.seq) or await self._left.holds(row.id):
            return
        saga = await self._rounds.take(row.id)
        due = duties(saga)
        # What is ours and due elsewhere is given back: whoever stored it may have been cancelled before anybody drove.
        if done_on(due, self._shop.settings.host) or (due and saga.driver == self._shop.owners.me):
            await self.wake(row.id)
        elif due:
            await self._awaited.look(saga)
