"""Time and chance that a test holds still: the engine's `Clock`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from saga_mcp.engine.clock import SystemClock


@dataclass(eq=False)
class _Alarm:
    """Somebody who is to be told that a time has come."""

    due: float
    ring: Callable[[], None]
    alarms: list[_Alarm]

    def cancel(self) -> None:
        if self in self.alarms:
            self.alarms.remove(self)


class ManualClock:
    """Time passes only where the test says so. Draws of the jitter are always the longest, and are recorded."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._alarms: list[_Alarm] = []
        self._changed = anyio.Event()
        self.drawn: list[float] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        woken = anyio.Event()
        alarm = self.after(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            alarm.cancel()

    def after(self, seconds: float, ring: Callable[[], None]) -> _Alarm:
        alarm = _Alarm(self._now + seconds, ring, self._alarms)
        self._alarms.append(alarm)
        self._changed.set()
        return alarm

    def jitter(self, longest_s: float) -> float:
        self.drawn.append(longest_s)
        return longest_s

    async def asleep_for(self, seconds: float, *, sleepers: int = 1) -> None:
        """Return once so many sleep who are due exactly that many seconds from now."""
        with anyio.fail_after(5):
            while sum(abs(alarm.due - self._now - seconds) < 1e-6 for alarm in self._alarms) < sleepers:
                self._changed = anyio.Event()
                await self._changed.wait()

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass, and wake who is due, the first one first."""
        self._now += seconds
        due = [alarm for alarm in self._alarms if alarm.due <= self._now + 1e-9]
        for alarm in sorted(due, key=lambda alarm: alarm.due):
            if alarm in self._alarms:  # else an earlier one has cancelled it
                alarm.cancel()
                alarm.ring()


class NotingClock(SystemClock):
    """The machine's time, without its patience: back-offs take no time, and what was drawn for them is recorded."""

    def __init__(self) -> None:
        self.drawn: list[float] = []

    def jitter(self, longest_s: float) -> float:
        self.drawn.append(longest_s)
        return 0.0
