"""Logs that fail or die at a chosen moment, around the real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import anyio

from saga_mcp.domain.errors import LogError, LogUnavailable
from saga_mcp.domain.events import Event
from saga_mcp.domain.holding import Holder
from saga_mcp.domain.machine import fold
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.state import Saga
from saga_mcp.log.port import (
    Append,
    AppendUnsettled,
    Decide,
    Decided,
    Decision,
    PairRow,
    Record,
    SagaLog,
    SagaRow,
    StepLock,
)


class LogAround:
    """Hands everything on; what it wraps does the work."""

    def __init__(self, inner: SagaLog) -> None:
        self.inner = inner

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        return await self.inner.decide(saga_id, decide)

    async def stored(self, append: Append) -> bool:
        return await self.inner.stored(append)

    async def load(self, saga_id: str) -> Saga:
        return await self.inner.load(saga_id)

    async def history(self, saga_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[Record]:
        return await self.inner.history(saga_id, after_seq=after_seq, limit=limit)

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
        return await self.inner.sagas(
            realm,
            caller=caller,
            conversation=conversation,
            open_only=open_only,
            attention_only=attention_only,
            limit=limit,
            offset=offset,
        )

    async def realms(self) -> Mapping[str, int]:
        return await self.inner.realms()

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        return await self.inner.busy_sagas(realm)

    async def saga_of_key(self, realm: str, caller: str, key: str) -> str | None:
        return await self.inner.saga_of_key(realm, caller, key)

    async def pair(self, pair_hash: str) -> PairRow | None:
        return await self.inner.pair(pair_hash)

    async def pause(self, realm: str, pause: Pause) -> Pause:
        return await self.inner.pause(realm, pause)

    async def resume(self, realm: str, tool: str) -> bool:
        return await self.inner.resume(realm, tool)

    async def paused(self, realm: str) -> Mapping[str, Pause]:
        return await self.inner.paused(realm)

    async def driver_of(self, realm: str) -> str:
        return await self.inner.driver_of(realm)

    async def name_driver(self, realm: str, name: str, *, was: str) -> str:
        return await self.inner.name_driver(realm, name, was=was)

    async def hmac_key(self) -> bytes:
        return await self.inner.hmac_key()

    async def take_lock(self, wanted: StepLock, *, over: StepLock | None = None) -> StepLock:
        return await self.inner.take_lock(wanted, over=over)

    async def holder(self, realm: str, resource: str) -> Holder | None:
        return await self.inner.holder(realm, resource)

    async def drop_lock(self, lock: StepLock) -> None:
        await self.inner.drop_lock(lock)

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        return await self.inner.observe(realm, seen, seconds)

    async def idle_sagas(self, realm: str, *, for_s: float) -> Sequence[SagaRow]:
        return await self.inner.idle_sagas(realm, for_s=for_s)

    async def wait_for_change(self, seen: int = 0) -> int:
        return await self.inner.wait_for_change(seen)


class BlockedLog(LogAround):
    """Refuses the appends that hold one of these events, a number of times."""

    def __init__(
        self, inner: SagaLog, *events: type[Event], times: int, error: Callable[[str], LogError] = LogUnavailable
    ) -> None:
        super().__init__(inner)
        self._events = events
        self._error = error
        self.left = times

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        def blocked(saga: Saga) -> Decision:
            decision = decide(saga)
            if self.left and any(isinstance(event, self._events) for event in decision.events):
                self.left -= 1
                raise self._error("planted: the disk is full")
            return decision

        return await self.inner.decide(saga_id, blocked)


class UnreadableLog(LogAround):
    """Reads fail from the moment on that a test says how."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.error: LogError | None = None

    async def load(self, saga_id: str) -> Saga:
        if self.error is not None:
            raise self.error
        return await self.inner.load(saga_id)


class DyingLog(LogAround):
    """The process dies at its n-th append: before it is stored, or after that and before anybody learns of it."""

    def __init__(self, inner: SagaLog, *, at: int, stored: bool) -> None:
        super().__init__(inner)
        self._at = at
        self._stored = stored
        self.appends = 0
        self.died = anyio.Event()

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        if self.died.is_set():
            await anyio.sleep_forever()
        try:
            decided = await self.inner.decide(saga_id, self._counted(decide))
        except _Dead:
            decided = None
        if decided is None or (self._stored and self.appends >= self._at and decided.saga.seq != decided.before.seq):
            self.died.set()
            await anyio.sleep_forever()
        assert decided is not None
        return decided

    async def take_lock(self, wanted: StepLock, *, over: StepLock | None = None) -> StepLock:
        if self.died.is_set():
            await anyio.sleep_forever()
        return await self.inner.take_lock(wanted, over=over)

    async def drop_lock(self, lock: StepLock) -> None:
        if self.died.is_set():
            await anyio.sleep_forever()
        await self.inner.drop_lock(lock)

    def _counted(self, decide: Decide) -> Callable[[Saga], Decision]:
        def counted(saga: Saga) -> Decision:
            decision = decide(saga)
            if decision.events:
                self.appends += 1
                if self.appends > self._at or (self.appends == self._at and not self._stored):
                    raise _Dead
            return decision

        return counted


class Fault(Enum):
    """What goes wrong with an append in a process that lives on."""

    STORED_UNSETTLED = "stored-and-not-known"
    """It is stored; for a while nobody can tell."""
    LOST_UNSETTLED = "lost-and-not-known"
    """It is not stored; for a while nobody can tell."""
    STORED_DENIED = "stored-and-denied"
    """It is stored and said not to be: what no log may do, and a bug in one could."""


class DoubtfulLog(LogAround):
    """Its n-th append has a fault, or the first that holds an event."""

    def __init__(
        self, inner: SagaLog, fault: Fault, *, at: int = 0, event: type[Event] | None = None, unreadable: int = 2
    ) -> None:
        super().__init__(inner)
        self._fault = fault
        self._at = at
        self._event = event
        self.unreadable = unreadable
        self._doubts: dict[Append, bool] = {}
        self.appends = 0
        self.met: tuple[Event, ...] = ()
        """What was to be appended when the fault was met."""

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        wanted: list[Decided] = []

        def planted(saga: Saga) -> Decision:
            decision = decide(saga)
            if decision.events:
                self.appends += 1
                if not self.met and (self.appends == self._at or self._holds(decision)):
                    self.met = decision.events
                    wanted.append(Decided(before=saga, saga=fold(saga, decision.events)))
                    if self._fault is Fault.LOST_UNSETTLED:
                        raise _Lost
            return decision

        try:
            decided = await self.inner.decide(saga_id, planted)
        except _Lost:
            raise self._unsettled(wanted[-1], stored=False) from None
        if not wanted:
            return decided
        if self._fault is Fault.STORED_DENIED:
            raise LogUnavailable("planted: said not to be stored")
        raise self._unsettled(decided, stored=True)

    def _holds(self, decision: Decision) -> bool:
        return self._event is not None and any(isinstance(event, self._event) for event in decision.events)

    def _unsettled(self, decided: Decided, *, stored: bool) -> AppendUnsettled:
        append = Append(decided.saga.id, decided.saga.seq, f"planted-{self._at}")
        self._doubts[append] = stored
        return AppendUnsettled("planted: not known whether it was stored", append, decided)

    async def stored(self, append: Append) -> bool:
        if self.unreadable:
            self.unreadable -= 1
            raise LogUnavailable("planted: cannot be read")
        return self._doubts[append]


class HeldLog(LogAround):
    """Appends wait from the moment on that a test says so, until it lets them go."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self._holds: tuple[type[Event], ...] | None = None
        self._stored = False
        self.held = anyio.Event()
        self._go = anyio.Event()
        self.decisions = 0
        """How many have been made and told."""

    def hold(self, *events: type[Event], stored: bool = False) -> None:
        """Appends that would hold one of `events` wait, or all; where `stored`, they are stored and not told."""
        self._holds, self._stored, self.held, self._go = events, stored, anyio.Event(), anyio.Event()

    def hold_no_more(self) -> None:
        """What waits goes on waiting."""
        self._holds = None

    def go(self) -> None:
        self.hold_no_more()
        self._go.set()

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        holds, stored, held, go = self._holds, self._stored, self.held, self._go
        waits = holds is not None and (not holds or await self._would_append(saga_id, decide, holds))
        decided = await self.inner.decide(saga_id, decide) if stored or not waits else None
        if waits:
            held.set()
            await go.wait()
        if decided is None:
            decided = await self.inner.decide(saga_id, decide)
        self.decisions += 1
        return decided

    async def _would_append(self, saga_id: str, decide: Decide, events: tuple[type[Event], ...]) -> bool:
        return any(isinstance(event, events) for event in decide(await self.inner.load(saga_id)).events)


class SlowReads(LogAround):
    """Once `holds` is given, a read that returns such a state is kept back until `go`."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.holds: Callable[[Saga], bool] | None = None
        self.held = anyio.Event()
        self.go = anyio.Event()

    async def load(self, saga_id: str) -> Saga:
        saga = await self.inner.load(saga_id)
        if self.holds is not None and self.holds(saga) and not self.go.is_set():
            self.held.set()
            await self.go.wait()
        return saga


class _Dead(Exception):
    pass


class _Lost(Exception):
    pass
