"""A saga log that fails at a chosen append: for tests of what happens around every durable write."""

from __future__ import annotations

from enum import Enum

from tests.world.failing import LogAround

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.port import Decide, Decided, SagaLog


class FailWhen(Enum):
    BEFORE = "before"
    """Nothing is stored, and the caller is told so."""
    AFTER = "after"
    """It is stored, but the caller never learns it: what a process sees that dies right after the write."""


class AnswerLost(Exception):
    """The write took place; its caller is gone."""


class FailingLog(LogAround):
    """Hands everything on to `inner`; decision number `at`, counted from 1, fails, and all later ones if `for_good`."""

    def __init__(self, inner: SagaLog, *, at: int, when: FailWhen = FailWhen.BEFORE, for_good: bool = False) -> None:
        super().__init__(inner)
        self._at = at
        self._when = when
        self._for_good = for_good
        self.decisions = 0

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        self.decisions += 1
        if self.decisions == self._at or (self._for_good and self.decisions > self._at):
            if self._when is FailWhen.AFTER and self.decisions == self._at:
                await self.inner.decide(saga_id, decide)
                raise AnswerLost
            raise LogUnavailable("planted: nothing was stored and nothing was sent")
        return await self.inner.decide(saga_id, decide)
