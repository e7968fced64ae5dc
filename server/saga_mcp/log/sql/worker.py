"""Who uses a connection, as the adapter sees it: work is handed over as whole functions, and the caller only waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection

from saga_mcp.domain.errors import LogUnavailable, Refused, SagaQuarantined

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], T]
Translate: TypeAlias = Callable[[Exception], Exception]

CLOSE_WITHIN_S: Final = 5.0
"""How long an end waits for what was handed in."""


class Busy(Exception):
    """The same work may succeed a moment later: a lock is taken, or the connection is lost. Nothing is stored.

    But where it was the COMMIT that got no answer: then nobody knows.
    """

    def __init__(self, given_up: Callable[[float], LogUnavailable], *, unsettled: bool = False) -> None:
        self.given_up = given_up
        """What it comes to after so many seconds."""
        self.unsettled = unsettled
        """Whether it may be stored after all."""
        super().__init__()


HARMLESS: Final = (Busy, Refused, SagaQuarantined)
"""What a connection may well fail with and still be as good as before."""


class Worker(Protocol):
    """Runs functions over a connection, one after the other.

    It connects at the first use, and again after a failure, so that a log whose trouble is over works without a
    restart.
    """

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """Start `work` and return its future. Cancelling the future does not stop the work.

        Raises:
            LogClosed: the worker has been told to end.
        """
        ...

    async def aclose(self) -> None:
        """End after the work that was submitted. Idempotent; the wait is bounded and not cut by a cancellation."""
        ...
