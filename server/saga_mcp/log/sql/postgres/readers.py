"""Several connections that read, so that a slow read holds up no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from saga_mcp.log.sql.postgres.task import ConnectionTask
from saga_mcp.log.sql.worker import Work

T = TypeVar("T")

_MOST: Final = 4


class Readers:
    """The `Worker` of whoever only reads: a connection more where all are at work, up to a few."""

    def __init__(self, another: Callable[[], ConnectionTask]) -> None:
        self._another = another
        self._tasks: list[ConnectionTask] = []

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """See `Worker.submit`."""
        least = min(self._tasks, key=lambda task: task.waiting, default=None)
        if least is None or (least.waiting and len(self._tasks) < _MOST):
            least = self._another()
            self._tasks.append(least)
        return least.submit(work)

    async def aclose(self) -> None:
        """See `Worker.aclose`."""
        for task in self._tasks or [self._another()]:
            await task.aclose()
