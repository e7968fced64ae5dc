"""An event loop with the time of the test: where everybody waits, it is at once as late as the first one waits for.

So a schedule of minutes takes milliseconds, and the same seed does the same thing again. There is no I/O, and there
are no threads.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


LONGEST_S = 200_000.0


class NothingLeftToHappen(Exception):
    """Everybody waits, and nobody for the time, or for ever and ever."""


class _NoFiles(selectors.BaseSelector):
    """Instead of waiting for files, time passes."""

    def __init__(self) -> None:
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: ANN401 - the base's
        return selectors.SelectorKey(fileobj, 0, events, data)  # the loop's own pipe, which nobody writes to

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:  # noqa: ANN401 - the base's
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or self.now > LONGEST_S:
            raise NothingLeftToHappen
        self.now += max(timeout, 0.0)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._files = _NoFiles()
        super().__init__(self._files)

    def time(self) -> float:
        return self._files.now


def run_in_virtual_time(main: Callable[[], Awaitable[T]]) -> T:
    return anyio.run(main, backend_options={"loop_factory": VirtualTimeLoop})
