"""Time and chance as the engine needs them, handed in so that tests can hold them still.

Waits use the monotonic clock only: a wall clock that jumps changes no schedule (CASES C31).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Protocol

import anyio


class Alarm(Protocol):
    """Something that is to happen at a time."""

    def cancel(self) -> None:
        """Let it not happen any more; harmless once it has."""
        ...


class Clock(Protocol):
    """Monotonic time and jitter."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch: for what people date, never for a wait."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        ...

    def after(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        """Call `ring` on the event loop, that long from now. Costs no task, and most alarms never ring."""
        ...

    def jitter(self, longest_s: float) -> float:
        """Draw a delay between zero and `longest_s` seconds (full jitter)."""
        ...


class SystemClock:
    """The machine's own."""

    def now(self) -> float:
        """Monotonic seconds of the event loop."""
        return anyio.current_time()

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        await anyio.sleep(seconds)

    def after(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        """Call `ring` on the event loop, that long from now."""
        return asyncio.get_running_loop().call_later(seconds, ring)

    def jitter(self, longest_s: float) -> float:
        """Draw uniformly between zero and `longest_s`."""
        return random.uniform(0.0, longest_s)  # noqa: S311 - spreads retries, guards nothing


class HastyClock(SystemClock):
    """The machine's time, with back-offs that take none of it: for rehearsals and tests."""

    def jitter(self, longest_s: float) -> float:
        """Draw the shortest delay."""
        del longest_s
        return 0.0
