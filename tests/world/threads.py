"""Threads of a server in the process of the test, which lives on when that server dies."""

from __future__ import annotations

import time
from collections.abc import Callable

from saga_mcp.tools.python import PythonThreads
from saga_mcp.tools.running import Ended, ToolThreads

_LONGEST_S = 1.0


class _Counted(ToolThreads):
    """Knows what runs in it, whether anybody waits for that or not."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.running = set[object]()

    async def run(self, work: Callable[[], object]) -> Ended:
        this = object()
        self.running.add(this)

        def counted() -> object:
            try:
                return work()
            finally:
                self.running.discard(this)

        return await super().run(counted)


class MortalThreads(PythonThreads):
    """End before anybody can see that their process has ended: a real one takes its threads along."""

    def __init__(self) -> None:
        super().__init__()
        self._counted = _Counted("saga tool"), _Counted("saga undo")
        self.forward, self.undo = self._counted

    def let_go(self) -> None:
        super().let_go()
        until = time.monotonic() + _LONGEST_S
        while any(threads.running for threads in self._counted) and time.monotonic() < until:
            time.sleep(0.001)  # nobody else of this process gets to act meanwhile, as nobody could
