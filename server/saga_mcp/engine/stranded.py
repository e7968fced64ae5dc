"""Looks after attempts of this very process that none of its tasks has in hand (DESIGN.md rule 2).

Recovery leaves a living owner's work alone, so without this a bug, or a log that stored what it said it had not, would
leave a step running for as long as the process lives.
"""

from __future__ import annotations

import structlog

from saga_mcp.domain.errors import LogError, SagaNotFound, SagaQuarantined
from saga_mcp.domain.stranded import attempts_of, end_stranded
from saga_mcp.engine.port import SagaDriver
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)


class Stranded:
    """The look at what tasks have let go of."""

    def __init__(self, workshop: Workshop, driver: SagaDriver) -> None:
        self._shop = workshop
        self._driver = driver
        self._stopping = False

    def stop(self) -> None:
        """Leave what is let go of from now on to whoever comes next: some of it is let go of for that (S12.1)."""
        self._stopping = True

    async def watch(self) -> None:
        """Look for ever after. Once the owner counts as dead, its work is everybody's (S3.5)."""
        while True:
            await self._shop.clock.sleep(self._shop.settings.recovery_every_s)
            if self._stopping or self._shop.claim_lost:
                return
            if not self._shop.claimed:
                continue
            for saga_id in self._shop.in_hand.take_let_go():
                await self._guarded(saga_id)

    async def _guarded(self, saga_id: str) -> None:
        try:
            await self._look(saga_id)
        except (SagaNotFound, SagaQuarantined) as error:
            _log.debug("nothing_to_look_at", saga_id=saga_id, reason=str(error))
        except LogError as error:
            _log.warning("log_unavailable", saga_id=saga_id, reason=str(error))
            self._shop.in_hand.look_again(saga_id)
        except Exception:  # noqa: BLE001 - the watch goes on for ever; the next round looks again
            _log.exception("stranded_look_failed", saga_id=saga_id)
            self._shop.in_hand.look_again(saga_id)

    async def _look(self, saga_id: str) -> None:
        in_hand = self._shop.in_hand
        me = self._shop.owners.me
        stranded = frozenset(attempts_of(await self._shop.log.load(saga_id), me))
        if self._stopping or in_hand.held(saga_id):
            return  # asked after the look, for the holder may have stored one of them; once it lets go, we look again
        sent = in_hand.sent(saga_id)
        if stranded:
            _log.error("attempts_stranded", saga_id=saga_id, steps=sorted({one.step for one in stranded}))
            await self._shop.record(saga_id, lambda now, driving: end_stranded(now, stranded, sent, me, driving))
            in_hand.forget(saga_id, stranded)
            await self._driver.wake(saga_id)
