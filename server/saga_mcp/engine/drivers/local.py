"""The default driver: tasks of this process, and a scan for what dead processes left behind (SEMANTICS.md S3.5, S10.4).

Serve first, recover in the background: the scan runs beside everything else, and each saga is driven in a task of its
own, so that a bad one stops no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.duties import (
    Abort,
    Duty,
    Finish,
    Probe,
    ProbeUndo,
    Resend,
    RunUndo,
    SendApproved,
    busy,
    duties,
    owners,
)
from saga_mcp.domain.errors import LogConflict, LogUnavailable, SagaQuarantined
from saga_mcp.domain.pausing import held_undo
from saga_mcp.domain.saga_decisions import abort_as_due, finish_rollback, take_over
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.stranded import Attempt, attempts_of, outlives_us
from saga_mcp.domain.undo_parts import part_of
from saga_mcp.engine.probing import Probing
from saga_mcp.engine.supervise import wait_for
from saga_mcp.engine.undo_probing import UndoProbing, asked_by
from saga_mcp.engine.undoing import Undoing
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import SagaRow
from saga_mcp.tools.pair import PairUnreadable
from saga_tools import Retry

_log = structlog.get_logger(__name__)

_TROUBLE = Retry(first_delay_s=0.5, max_delay_s=60.0)
"""How long a saga that cannot be driven is left alone before it is tried again."""


class Allowances(Protocol):
    """Sends stored calls that people have allowed."""

    async def send(self, saga: Saga, number: int) -> None:
        """Send the stored call of step `number`."""
        ...


class Resender(Protocol):
    """Sends retriable steps again."""

    async def resend(self, saga: Saga, number: int) -> None:
        """Send step `number` again, with the same key."""
        ...


@dataclass(slots=True)
class _Drive:
    """One saga being driven by this process."""

    wake: anyio.Event = field(default_factory=anyio.Event)
    rested: anyio.Event = field(default_factory=anyio.Event)
    beside: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Probes and re-sends that run beside the rollback, by duty and step."""
    not_before: dict[tuple[int, str, int], float] = field(default_factory=dict[tuple[int, str, int], float])
    """When the next attempt of an undo part is due, by step, part and tries."""
    watched: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Undo parts whose upstream is down, by step and part: they are due when it comes up."""
    up: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Those of them whose upstream has come up since."""


class LocalDriver:
    """Drives the sagas of this process, and those of processes that are proved dead."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._undoing = Undoing(workshop, tasks)
        self._probing = Probing(workshop, tasks)
        self._undo_probing = UndoProbing(workshop, tasks)
        self._drives: dict[str, _Drive] = {}
        self._trouble: dict[str, tuple[int, float]] = {}
        self._noticed: dict[tuple[str, Attempt], float] = {}
        """Since when attempts are known to have lost their owner, by saga."""
        self._changed = anyio.Event()
        self._watched = anyio.Event()
        self._waiting = 0
        """How many wait here for sagas that others drive."""
        self._stopping = False
        self._resender: Resender | None = None
        self._allowances: Allowances | None = None

    def start(self, resender: Resender, allowances: Allowances) -> None:
        """Begin to look after sagas, in the background."""
        self._resender = resender
        self._allowances = allowances
        self._tasks.start_soon(self._watch)
        self._tasks.start_soon(self._scan)

    def stop(self) -> None:
        """Begin no new undo."""
        self._stopping = True
        self._undoing.stop()
        for drive in self._drives.values():
            drive.wake.set()

    async def stopped(self) -> None:
        """Return when what was under way is recorded."""
        while self._drives:
            await next(iter(self._drives.values())).rested.wait()

    async def wake(self, saga_id: str) -> None:
        """Drive the saga, or let the task that does look again."""
        drive = self._drives.get(saga_id)
        if drive is not None:
            drive.wake.set()
        elif self._shop.drives and not self._stopping:
            drive = self._drives[saga_id] = _Drive()
            self._watched.set()
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
                await self._until_changed(changed)

    async def _until_changed(self, changed: anyio.Event) -> None:
        self._waiting += 1
        self._watched.set()
        try:
            await wait_for(changed, self._shop.settings.recovery_every_s, self._shop.clock)
        finally:
            self._waiting -= 1

    # --- one saga -----------------------------------------------------------------------------------------------------

    async def _run(self, saga_id: str, drive: _Drive) -> None:
        try:
            await self._drive(saga_id, drive)
            self._trouble.pop(saga_id, None)
        except SagaQuarantined as error:
            _log.error("saga_quarantined", saga_id=saga_id, reason=error.reason)
            self._leave_alone(saga_id)
        except (LogUnavailable, LogConflict) as error:
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
        self._trouble[saga_id] = (times, self._shop.clock.now() + _TROUBLE.delay_s(times))

    async def _drive(self, saga_id: str, drive: _Drive) -> None:
        while not self._stopping and self._shop.claimed:
            drive.wake = anyio.Event()
            saga = await self._take(saga_id)
            if saga.driver != self._shop.owners.me:
                return  # somebody living drives it
            acted = False
            pause = self._shop.settings.recovery_every_s
            for duty in duties(saga):
                if isinstance(duty, Probe | ProbeUndo | Resend | SendApproved):
                    self._beside(saga, duty, drive)
                    continue
                wait = await self._due_in(saga, duty, drive)
                if wait > 0:
                    pause = min(pause, wait) if pause else wait
                    continue
                await self._act(saga, duty)
                acted = True
                break
            if acted:
                continue
            # What was appended after this look has set `wake` again.
            if not busy(saga) and not drive.beside and not drive.wake.is_set():
                return
            await wait_for(drive.wake, pause, self._shop.clock)

    async def _take(self, saga_id: str) -> Saga:
        """The state now, with the work of dead owners recorded and the driving ours where nobody living has it."""
        saga = await self._shop.log.load(saga_id)
        if any(self._dead(owner) for owner in owners(saga)) or not saga.driver:
            lasting = await self._lasting(saga)
            decided = await self._shop.decide(
                saga_id, lambda now, driving: take_over(now, driving, self._dead, lasting)
            )
            return decided.saga
        return saga

    async def _lasting(self, saga: Saga) -> frozenset[Attempt]:
        """Attempts of dead owners that run elsewhere, until their hard deadline has passed since this was noticed."""
        dead = [owner for owner in owners(saga) if self._dead(owner)]
        elsewhere = {each for owner in dead for each in attempts_of(saga, owner) if outlives_us(saga, each)}
        for slot in [slot for slot in self._noticed if slot[0] == saga.id and slot[1] not in elsewhere]:
            del self._noticed[slot]
        now = self._shop.clock.now()
        lasting: set[Attempt] = set()
        for attempt in elsewhere:
            since = self._noticed.setdefault((saga.id, attempt), now)
            with contextlib.suppress(PairUnreadable):  # then nothing will be sent for it either
                if now - since < await self._hard_deadline_s(saga, attempt):
                    lasting.add(attempt)
        return frozenset(lasting)

    async def _hard_deadline_s(self, saga: Saga, attempt: Attempt) -> float:
        step = saga.step(attempt.step)
        pair = await self._shop.pair(step)
        part = part_of(step, attempt.part)
        return pair.hard_deadline_s if part is None else (await self._undoing.policy(step, part)).hard_deadline_s

    def _dead(self, owner: str) -> bool:
        # Of itself a process knows that it lives, whatever became of its lock: its own calls are still running.
        return owner != self._shop.owners.me and not self._shop.owners.alive(owner)

    async def _due_in(self, saga: Saga, duty: Duty, drive: _Drive) -> float:
        """Seconds until this duty's back-off is over; 0: now."""
        if not isinstance(duty, RunUndo):
            return 0.0
        part = duty.part
        if held_undo(saga, await self._shop.log.paused(saga.realm)) is not None:
            return self._shop.settings.recovery_every_s  # woken by any change of the log
        # A person's "retry" clears both: it goes out at once.
        failed_before = part.attempts > 0 or (part.tries > 0 and part.error != "")
        if not failed_before or (duty.step.number, part.id) in drive.up:
            drive.up.discard((duty.step.number, part.id))
            return 0.0
        wait = await self._back_off(saga.id, duty.step, part, drive)
        if wait > 0 and part.outage is not None and (duty.step.number, part.id) not in drive.watched:
            drive.watched.add((duty.step.number, part.id))
            self._tasks.start_soon(self._when_up, duty.step, part, drive)
        return wait

    async def _when_up(self, step: Step, part: Part, drive: _Drive) -> None:
        """Let a part be tried at once when all that it asks is up."""
        asked = await asked_by(self._shop, step, part)
        for each in asked:
            await each.comes_up()
        if asked:
            drive.watched.discard((step.number, part.id))
            drive.up.add((step.number, part.id))
            drive.wake.set()

    async def _back_off(self, saga_id: str, step: Step, part: Part, drive: _Drive) -> float:
        slot = (step.number, part.id, part.tries)
        now = self._shop.clock.now()
        if slot not in drive.not_before:
            policy = await self._undoing.policy(step, part)
            if part.attempts >= policy.retry.attempts:
                return 0.0
            planned = self._undoing.again_in(saga_id, step.number, part)
            longest_s = policy.retry.delay_s(part.attempts or part.tries)
            drive.not_before[slot] = now + (self._shop.clock.jitter(longest_s) if planned is None else planned)
        return drive.not_before[slot] - now

    async def _act(self, saga: Saga, duty: Duty) -> None:
        match duty:
            case RunUndo():
                await self._undoing.run(saga, duty)
            case Abort():
                await self._shop.decide(saga.id, abort_as_due)
            case Finish():
                await self._shop.decide(saga.id, finish_rollback)
            case Probe() | ProbeUndo() | Resend() | SendApproved():  # pragma: no cover - these run beside
                pass

    def _beside(self, saga: Saga, duty: Probe | ProbeUndo | Resend | SendApproved, drive: _Drive) -> None:
        slot = (type(duty).__name__, duty.step.number)
        if slot in drive.beside:
            return
        drive.beside.add(slot)
        number = duty.step.number

        async def work() -> None:
            match duty:
                case Probe():
                    await self._probing.run(saga, number)
                case ProbeUndo():
                    await self._undo_probing.run(saga, duty)
                case Resend():
                    assert self._resender is not None  # noqa: S101 - given at start
                    await self._resender.resend(saga, number)
                case SendApproved():
                    assert self._allowances is not None  # noqa: S101 - given at start
                    await self._allowances.send(saga, number)

        self._tasks.start_soon(self._guarded, saga.id, drive, slot, work)

    async def _guarded(
        self, saga_id: str, drive: _Drive, slot: tuple[str, int], work: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await work()
        except (LogUnavailable, LogConflict) as error:
            _log.warning("log_unavailable", saga_id=saga_id, reason=str(error))
            await self._shop.clock.sleep(_TROUBLE.first_delay_s)
        except Exception:  # noqa: BLE001 - see `_run`
            _log.exception("driving_failed", saga_id=saga_id, step=slot[1])
            await self._shop.clock.sleep(_TROUBLE.delay_s(4))
        finally:
            drive.beside.discard(slot)
            drive.wake.set()

    # --- everybody's sagas --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Pass on that the log changed, by whatever process, to whoever waits here; most of the time that is nobody."""
        seen = 0
        while True:
            if not self._drives and not self._waiting:
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
                drive.wake.set()

    async def _scan(self) -> None:
        """Look for sagas that nobody living drives, at start and for ever after."""
        while not self._stopping:
            if not self._shop.claimed:
                _log.error("claim_lost", owner=self._shop.owners.me)
                return
            try:
                for row in await self._shop.log.busy_sagas(self._shop.settings.realm):
                    await self._look_after(row)
            except LogUnavailable as error:
                _log.warning("log_unavailable", reason=str(error))
            except Exception:  # noqa: BLE001 - the scan goes on for ever
                _log.exception("recovery_scan_failed")
            await self._shop.clock.sleep(self._shop.settings.recovery_every_s)

    async def _look_after(self, row: SagaRow) -> None:
        """One bad saga must not stop the recovery of the others."""
        try:
            await self._consider(row)
        except SagaQuarantined as error:
            _log.error("saga_quarantined", saga_id=row.id, reason=error.reason)
            self._leave_alone(row.id)
        except LogConflict as error:
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
        if row.driver and row.driver != self._shop.owners.me and not self._dead(row.driver):
            return
        if duties(await self._take(row.id)):
            await self.wake(row.id)
