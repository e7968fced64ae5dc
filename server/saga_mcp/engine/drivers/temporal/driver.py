"""The `temporal` driver as the engine sees it: wake-ups to Temporal, and a scan for those that got lost.

A server only sends wake-ups. A worker, which is the same process without an edge, also takes the turns. Nothing here
ever falls back to driving by itself: what Temporal cannot be told waits until it can (S12.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.duties import busy, duties
from saga_mcp.domain.errors import DriverUnavailable, LogConflict, LogUnavailable, SagaQuarantined
from saga_mcp.engine.drivers.rounds import Rounds
from saga_mcp.engine.drivers.temporal.errands import Errands
from saga_mcp.engine.drivers.temporal.lacking import tell_what_is_missing
from saga_mcp.engine.drivers.temporal.resting import Resting
from saga_mcp.engine.drivers.temporal.waking import Send, WakeUps
from saga_mcp.engine.drivers.tenure import TEMPORAL, Tenure
from saga_mcp.engine.hosts import AwaitedHosts
from saga_mcp.engine.port import Allowances, Resender
from saga_mcp.engine.supervise import wait_for
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import SagaRow

_log = structlog.get_logger(__name__)

_PATIENCE: Final = 2.0
"""Looks after which a saga that has not moved is told of: whoever made it busy has done that, as a rule."""
_LESS_OFTEN: Final = 4.0
_SELDOM_S: Final = 900.0
_AT_A_TIME: Final = 100
"""Sagas that are looked at in one scan: in a rush the others have their turn in the next ones."""
_LOOK_S: Final = 5.0
"""How often a request looks by itself whether its saga rests, besides being told."""
_SENT_WITHIN_S: Final = 4.0
"""How long a command waits for its wake-up to be taken."""


class Hands(Protocol):
    """Takes turns that Temporal gives out, in a worker."""

    async def work(self, errands: Errands) -> None:
        """Do so until `errands.stopping` is set."""
        ...


@dataclass(slots=True)
class _Seen:
    """A busy saga as the scan knows it."""

    seq: int
    again_at: float
    again_in_s: float


class TemporalDriver:
    """Has Temporal drive sagas."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup, send: Send, hands: Hands | None, *, brief: bool) -> None:
        """Made by `app`; `hands`: of a worker; `brief`: the process ends soon, so a wake-up is waited for."""
        self._shop = workshop
        self._tasks = tasks
        self._hands = hands
        self._brief = brief
        self._wake_ups = WakeUps(send, workshop.clock)
        self._resting = Resting(workshop)
        self._watches = False
        self._tenure = Tenure(workshop, TEMPORAL)
        self._errands = Errands(workshop, tasks, self._tenure)
        self._awaited = AwaitedHosts(workshop)
        self._seen: dict[str, _Seen] = {}
        self._stopping = False
        if hands is None:
            workshop.drives = False  # new work names nobody: the worker whose turn it is takes it
            self._rounds = Rounds(workshop, tasks)
        else:
            self._rounds = self._errands.rounds

    @property
    def trouble(self) -> str:
        """See `SagaDriver.trouble`."""
        return self._wake_ups.trouble

    def start(self, resender: Resender, allowances: Allowances) -> None:
        """Begin to look after sagas, in the background."""
        self._errands.start(resender, allowances)
        if not self._brief:
            self._tasks.start_soon(self._wake_ups.run)
        self._tasks.start_soon(self._scan)
        self._tasks.start_soon(self._resting.watch)
        self._watches = True
        if self._hands is not None:
            self._tasks.start_soon(tell_what_is_missing, self._shop)
            self._tasks.start_soon(self._hands.work, self._errands)

    def stop(self) -> None:
        """Begin no new undo."""
        self._stopping = True
        self._errands.stop()

    async def stopped(self) -> None:
        """Return when what was under way is recorded."""
        await self._errands.stopped()

    async def wake(self, saga_id: str) -> None:
        """Have Temporal drive the saga; does not wait until it knows, but in a command that ends soon."""
        if self._brief and not await self._tenure.holds():
            return
        if not self._shop.otherwise:
            self._wake_ups.add(saga_id)
        if self._brief and not self._wake_ups.trouble:  # the realm's servers and workers find it in the log
            with anyio.move_on_after(_SENT_WITHIN_S):
                await self._wake_ups.round()

    async def rest(self, saga_id: str) -> None:
        """Return when nothing of the saga runs or is due any more.

        Raises:
            DriverUnavailable: something is due, and Temporal cannot be told now.
        """
        every_s = self._shop.settings.recovery_every_s
        with self._resting.waiting_for(saga_id) as rests:
            while busy(await self._shop.log.load(saga_id)):
                until = self._shop.clock.now() + (_LOOK_S if self._watches else 0.0)
                while not await wait_for(rests, every_s, self._shop.clock):
                    if refused := self._wake_ups.refused(saga_id):
                        raise DriverUnavailable(refused)
                    if self._shop.clock.now() >= until:
                        break
                if rests.is_set():
                    return

    # --- everybody's sagas --------------------------------------------------------------------------------------------

    async def _scan(self) -> None:
        """Look for busy sagas whose wake-up may have got lost, for ever after."""
        while not self._stopping:
            if self._shop.claim_lost:
                _log.error("claim_lost", owner=self._shop.owners.me)
                self._errands.stop()  # turns are for other workers
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
        rows = await self._shop.log.busy_sagas(self._shop.settings.realm) if await self._tenure.holds() else ()
        found = [row for row in rows if self._stands_still(row)]
        for row in found[:_AT_A_TIME]:
            await self._look_after(row)
        known = {row.id for row in rows}
        self._seen = {saga_id: seen for saga_id, seen in self._seen.items() if saga_id in known}
        self._awaited.keep(known)

    def _stands_still(self, row: SagaRow) -> bool:
        """Whether it is time to look why a saga does not move."""
        now = self._shop.clock.now()
        seen = self._seen.get(row.id)
        if seen is None or seen.seq != row.seq:
            wait_s = _PATIENCE * self._shop.settings.recovery_every_s
            self._seen[row.id] = _Seen(row.seq, now + wait_s, wait_s)
            return False
        return now >= seen.again_at

    async def _look_after(self, row: SagaRow) -> None:
        seen = self._seen[row.id]
        tell_at = math.inf
        try:
            saga = await self._shop.log.load(row.id)
        except (SagaQuarantined, LogConflict) as error:
            _log.warning("saga_not_looked_at", saga_id=row.id, reason=str(error))
            due = False
        else:
            tell_at = await self._awaited.look(saga)
            due = bool(duties(saga)) or await self._rounds.orphaned(saga)
        if due:
            # No signal: a workflow that runs looks by itself some time, and a rush must not be made worse by looks.
            self._wake_ups.add(row.id, signal=False)
            seen.again_in_s = min(_SELDOM_S, seen.again_in_s * _LESS_OFTEN)
        seen.again_at = min(self._shop.clock.now() + seen.again_in_s, tell_at)
