"""Delivers what lies in the outbox: at least once, in order per saga, by one process at a time (SEMANTICS.md S10.6).

It works beside everything else and nothing waits for it: a receiver that is dead or slow costs one attempt now and
then. What was acknowledged and not yet removed when a process dies is sent once more, under the same id.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.errors import LogConflict, LogUnavailable, SagaQuarantined
from saga_mcp.domain.living import Life
from saga_mcp.domain.saga_decisions import park_alerts
from saga_mcp.engine.supervise import wait_for
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.outbox import Outbox, PendingAlert
from saga_tools import Retry

_log = structlog.get_logger(__name__)

PARK_AFTER_S: Final = 86400.0
"""How long an alert is tried, counted while a server of the realm runs (S9.4)."""
_OF_AN_ALERT: Final = Retry(first_delay_s=1.0, max_delay_s=300.0)
_OF_THE_RECEIVER: Final = Retry(first_delay_s=1.0, max_delay_s=60.0)
"""How long nothing is sent after it did not acknowledge something: then one is, and if that is taken the others."""
_LINES: Final = 4
"""Of how many sagas alerts are sent at the same time."""
_IN_A_ROW: Final = 32
"""After so many of one saga others have their turn."""
_LOOK: Final = 64
_STUCK_AFTER_S: Final = 60.0
"""A claim of a living process that has not moved for so long, several times what an attempt may take, is taken over."""
_PARKED_AT_ONCE: Final = 100


class AlertSender(Protocol):
    """Where alerts go."""

    async def send(self, alert: PendingAlert) -> str:
        """Send it once, within a bounded time: empty where it was acknowledged, else why not, without any value."""
        ...


class Alerting:
    """Watches the outbox while this process drives."""

    def __init__(self, workshop: Workshop, outbox: Outbox, sender: AlertSender, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._outbox = outbox
        self._sender = sender
        self._tasks = tasks
        self._sending: set[str] = set()
        """Sagas of which an alert is being sent here."""
        self._ended = anyio.Event()
        self._rested = anyio.Event()
        """Set at each look that finds nothing to send, and nothing being sent."""
        self._claims: dict[tuple[str, int, str], float] = {}
        """Since when claims of other processes are known, by alert, attempts and owner."""
        self._failures = 0
        """How often in a row the receiver did not acknowledge."""
        self._not_before = 0.0

    async def watch(self) -> None:
        """Deliver for ever after. Once this process counts as dead, others do it (S3.5)."""
        while not self._shop.claim_lost:
            self._ended = anyio.Event()
            try:
                if self._shop.claimed:
                    await self._look()
            except LogUnavailable as error:
                _log.warning("log_unavailable", reason=str(error))
            except Exception:  # noqa: BLE001 - the watch goes on for ever
                _log.exception("alert_watch_failed")
            await wait_for(self._ended, self._shop.settings.recovery_every_s, self._shop.clock)

    async def settled(self, within_s: float) -> None:
        """Wait until nothing is left to send, or the receiver fails, at most that long: for a command about to end."""
        with anyio.move_on_after(within_s):
            self._rested = anyio.Event()
            self._ended.set()  # looks at once
            await self._rested.wait()

    async def _look(self) -> None:
        room = (1 if self._failures else _LINES) - len(self._sending)
        found: list[PendingAlert] = []
        if room > 0 and self._shop.clock.now() >= self._not_before:
            heads = await self._outbox.due(self._shop.settings.realm, self._shop.clock.wall(), limit=_LOOK)
            found = self._free(heads, await self._shop.lives({head.owner for head in heads} - {""}))[:room]
        for head in found:
            self._sending.add(head.saga_id)
            self._tasks.start_soon(self._deliver, head)
        if not self._sending:
            self._rested.set()

    def _free(self, heads: Sequence[PendingAlert], lives: Mapping[str, Life]) -> list[PendingAlert]:
        """Those that nobody else is sending now."""
        now, me = self._shop.clock.now(), self._shop.owners.me
        known, self._claims = self._claims, {}
        free: list[PendingAlert] = []
        for head in heads:
            if head.saga_id in self._sending:
                continue
            if head.owner and head.owner != me and not lives[head.owner].is_gone:
                claim = (head.id, head.attempts, head.owner)
                since = self._claims[claim] = known.get(claim, now)
                if now - since < _STUCK_AFTER_S:
                    continue
            free.append(head)
        return free

    async def _deliver(self, head: PendingAlert) -> None:
        try:
            claimed = await self._outbox.claim(head, self._shop.owners.me)
            sent = 0
            while claimed is not None:
                if reason := await self._sender.send(claimed):
                    await self._not_acknowledged(claimed, reason)
                    return
                self._acknowledged(claimed)
                sent += 1
                claimed = await self._outbox.delivered(claimed, go_on=sent < _IN_A_ROW)
        except LogUnavailable as error:
            _log.warning("log_unavailable", saga_id=head.saga_id, reason=str(error))
            self._hold_off()
        except Exception:  # noqa: BLE001 - the others go on
            _log.exception("alert_failed", saga_id=head.saga_id)
            self._hold_off()
        finally:
            self._sending.discard(head.saga_id)
            self._ended.set()

    def _acknowledged(self, alert: PendingAlert) -> None:
        if self._failures:
            _log.info("alerts_acknowledged_again", failures=self._failures, saga_id=alert.saga_id)
        self._failures = 0
        self._not_before = 0.0

    def _hold_off(self) -> float:
        self._failures += 1
        wait_s = self._shop.clock.jitter(_OF_THE_RECEIVER.delay_s(self._failures))
        self._not_before = self._shop.clock.now() + wait_s
        return wait_s

    async def _not_acknowledged(self, alert: PendingAlert, reason: str) -> None:
        wait_s = self._hold_off()
        _log.warning(
            "alert_not_acknowledged",
            alert=alert.id,
            type=alert.type,
            attempts=alert.attempts,
            reason=reason,
            again_in_s=round(wait_s, 1),
        )
        again_s = self._shop.clock.jitter(_OF_AN_ALERT.delay_s(alert.attempts))
        await self._outbox.failed(alert, self._shop.clock.wall() + again_s)
        realm = self._shop.settings.realm
        for saga_id in await self._outbox.waiting_for(realm, PARK_AFTER_S, limit=_PARKED_AT_ONCE):
            with contextlib.suppress(SagaQuarantined, LogConflict):
                await self._shop.decide(saga_id, lambda saga, _: park_alerts(saga, reason))
                _log.warning("alerts_parked", saga_id=saga_id, reason=reason)
