"""A saga log that fails at a chosen append: for tests of what happens around every durable write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.state import Saga
from saga_mcp.log.port import Append, Decide, Decided, PairRow, Record, SagaLog, SagaRow


class FailWhen(Enum):
    BEFORE = "before"
    """Nothing is stored, and the caller is told so."""
    AFTER = "after"
    """It is stored, but the caller never learns it: what a process sees that dies right after the write."""


class AnswerLost(Exception):
    """The write took place; its caller is gone."""


class FailingLog:
    """Hands everything on to `inner`; decision number `at`, counted from 1, fails, and all later ones if `for_good`."""

    def __init__(self, inner: SagaLog, *, at: int, when: FailWhen = FailWhen.BEFORE, for_good: bool = False) -> None:
        self._inner = inner
        self._at = at
        self._when = when
        self._for_good = for_good
        self.decisions = 0

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        self.decisions += 1
        if self.decisions == self._at or (self._for_good and self.decisions > self._at):
            if self._when is FailWhen.AFTER and self.decisions == self._at:
                await self._inner.decide(saga_id, decide)
                raise AnswerLost
            raise LogUnavailable("planted: nothing was stored and nothing was sent")
        return await self._inner.decide(saga_id, decide)

    async def stored(self, append: Append) -> bool:
        return await self._inner.stored(append)

    async def load(self, saga_id: str) -> Saga:
        return await self._inner.load(saga_id)

    async def history(self, saga_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[Record]:
        return await self._inner.history(saga_id, after_seq=after_seq, limit=limit)

    async def sagas(
        self,
        realm: str,
        *,
        caller: str | None = None,
        conversation: str | None = None,
        open_only: bool = False,
        attention_only: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[SagaRow]:
        return await self._inner.sagas(
            realm,
            caller=caller,
            conversation=conversation,
            open_only=open_only,
            attention_only=attention_only,
            limit=limit,
            offset=offset,
        )

    async def realms(self) -> Mapping[str, int]:
        return await self._inner.realms()

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        return await self._inner.busy_sagas(realm)

    async def saga_of_key(self, realm: str, caller: str, key: str) -> str | None:
        return await self._inner.saga_of_key(realm, caller, key)

    async def pair(self, pair_hash: str) -> PairRow | None:
        return await self._inner.pair(pair_hash)

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        return await self._inner.observe(realm, seen, seconds)

    async def idle_sagas(self, realm: str, *, for_s: float) -> Sequence[SagaRow]:
        return await self._inner.idle_sagas(realm, for_s=for_s)

    async def wait_for_change(self, seen: int = 0) -> int:
        return await self._inner.wait_for_change(seen)
