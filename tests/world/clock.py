"""Time and chance that a test holds still: the engine's `Clock`."""

from __future__ import annotations

import anyio


class ManualClock:
    """Time passes only where the test says so. Draws of the jitter are always the longest, and are recorded."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._sleepers: list[tuple[float, anyio.Event]] = []
        self._changed = anyio.Event()
        self.drawn: list[float] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        sleeper = (self._now + seconds, anyio.Event())
        self._sleepers.append(sleeper)
        self._changed.set()
        try:
            await sleeper[1].wait()
        finally:
            self._sleepers.remove(sleeper)

    def jitter(self, longest_s: float) -> float:
        self.drawn.append(longest_s)
        return longest_s

    async def asleep_for(self, seconds: float, *, sleepers: int = 1) -> None:
        """Return once so many sleep who are due exactly that many seconds from now."""
        with anyio.fail_after(5):
            while sum(abs(due - self._now - seconds) < 1e-6 for due, _ in self._sleepers) < sleepers:
                self._changed = anyio.Event()
                await self._changed.wait()

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass, and wake who is due."""
        self._now += seconds
        for due, event in self._sleepers:
            if due <= self._now + 1e-9:
                event.set()


class HastyClock:
    """The machine's time, without its patience: back-offs take no time, and what was drawn for them is recorded."""

    def __init__(self) -> None:
        self.drawn: list[float] = []

    def now(self) -> float:
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    def jitter(self, longest_s: float) -> float:
        self.drawn.append(longest_s)
        return 0.0
