"""Delivers wake-ups: at once, at most so many at a time, and again and again until Temporal has taken them.

What has to be delivered is not kept here alone: a saga that needs driving is `busy` in the log, from the transaction on
that made it so, and the driver's scan finds it there (at least once, no dual write). This is the quick way beside it.
"""

from __future__ import annotations

from typing import Final, Protocol

import anyio
import structlog

from saga_mcp.engine.clock import Clock
from saga_tools import Retry

_log = structlog.get_logger(__name__)

_AT_A_TIME: Final = 16
_AGAIN: Final = Retry(first_delay_s=0.5, max_delay_s=10.0)


class Send(Protocol):
    """Delivers a wake-up."""

    async def __call__(self, saga_id: str, *, signal: bool) -> None:
        """See `TemporalConnection.tell`; raises where it is not known to have arrived."""
        ...


class WakeUps:
    """The wake-ups of this process that Temporal has not taken yet."""

    def __init__(self, send: Send, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._due: dict[str, bool] = {}
        """Whether a signal is to be sent too, by saga."""
        self._wanted = anyio.Event()
        self._failures = 0
        self.trouble = ""
        """Why Temporal took none when it was last tried; empty: it did."""

    def add(self, saga_id: str, *, signal: bool = True) -> None:
        """Deliver one as soon as possible; without a `signal` it is for a saga whose workflow may have got lost."""
        self._due[saga_id] = signal or self._due.get(saga_id, False)
        self._wanted.set()

    def refused(self, saga_id: str) -> str:
        """Why a wake-up was not taken so far; empty: it was, or is on its way for the first time."""
        return self.trouble if saga_id in self._due else ""

    async def run(self) -> None:
        """Deliver for ever after."""
        while True:
            if not self._due:
                self._wanted = anyio.Event()
                await self._wanted.wait()
            await self.round()
            if self.trouble:
                await self._clock.sleep(_AGAIN.delay_s(self._failures))

    async def round(self) -> None:
        """Try each that is due once; while Temporal is away, one is enough to find out whether it is back."""
        batch = [*self._due][: 1 if self.trouble else _AT_A_TIME]
        async with anyio.create_task_group() as deliveries:
            for saga_id in batch:
                deliveries.start_soon(self._deliver, saga_id)
        self._failures = self._failures + 1 if self.trouble else 0

    async def _deliver(self, saga_id: str) -> None:
        signal = self._due.pop(saga_id)  # what is added from here on is a wake-up of its own
        try:
            await self._send(saga_id, signal=signal)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again
            self.add(saga_id, signal=signal)
            if not self.trouble:
                _log.warning("driver_unavailable", saga_id=saga_id, reason=str(error) or type(error).__name__)
            self.trouble = str(error) or type(error).__name__
        else:
            if self.trouble:
                _log.info("driver_available_again", failures=self._failures)
            self.trouble = ""
