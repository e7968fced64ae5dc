"""One process of a schedule: the real engine, over a log that is slow, that fails, and at which the process may die."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from tests.chaos.outside import Fate, Outside
from tests.chaos.tools import Chance, catalogue
from tests.world.failing import LogAround
from tests.world.memory import MemoryDatabase, MemoryLog

from saga_mcp.domain.errors import LogConflict, LogUnavailable
from saga_mcp.domain.living import Life
from saga_mcp.domain.machine import fold
from saga_mcp.domain.state import Saga
from saga_mcp.engine.clock import SystemClock
from saga_mcp.engine.drivers.local import LocalDriver
from saga_mcp.engine.engine import Engine
from saga_mcp.engine.port import EngineSettings
from saga_mcp.log.port import Append, AppendUnsettled, Claim, Decide, Decided, Decision, PairRow, SagaRow

FAULTS = ("refused", "stored and not known", "lost and not known", "lost to others")


@dataclass
class Weather:
    """What the log does to a process, apart from what it is for."""

    dice: random.Random
    faulty: float = 0.0
    """How many appends meet a fault."""
    down: Sequence[tuple[float, float]] = ()
    """When the log can neither be written nor read."""
    full: Sequence[tuple[float, float]] = ()
    """When it can only be read."""
    dies_at: int = 0
    """The append at which the process dies; 0: at none."""
    dies_stored: bool = False
    dies_in_call: int = 0
    """The call during which it dies; 0: in none."""


@dataclass
class Alive:
    """The port's `Owners`: as certain as a lock."""

    fates: dict[str, Fate]
    me: str

    @property
    def standing(self) -> Claim:
        return Claim.LOST if self.fates[self.me].dead else Claim.HELD

    @property
    def trouble(self) -> str:
        return ""

    async def look(self, owners: Collection[str]) -> Mapping[str, Life]:
        return {
            owner: Life.LIVES if owner in self.fates and not self.fates[owner].dead else Life.DEAD for owner in owners
        }

    async def others_serve(self, realm: str) -> bool:
        del realm
        return False

    def mark(self) -> Path:
        raise NotImplementedError  # nothing here is started


class ChanceLog(LogAround):
    """The log as a process of a schedule meets it."""

    def __init__(self, inner: MemoryLog, fate: Fate, outside: Outside, weather: Weather) -> None:
        super().__init__(inner)
        self._fate = fate
        self._outside = outside
        self._weather = weather
        self._doubts: dict[Append, bool] = {}
        self._unreadable = 0
        self.appends = 0

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        fate, weather = self._fate, self._weather
        await fate.alive()
        decided: Decided | None = None
        # The write belongs to the process: a cancelled wait does not cancel it.
        with anyio.CancelScope(shield=True):
            await anyio.sleep(weather.dice.uniform(0, 0.01))
            if not fate.dead:
                self._be_up()
                self._have_room()
                decided = await self._decide(saga_id, decide)
            await anyio.sleep(weather.dice.uniform(0, 0.005))
        await fate.alive()
        assert decided is not None
        return decided

    async def _decide(self, saga_id: str, decide: Decide) -> Decided:
        weather = self._weather
        fault = weather.dice.choice(FAULTS) if weather.dice.random() < weather.faulty else ""
        wanted: list[Decided] = []

        def watched(saga: Saga) -> Decision:
            decision = decide(saga)
            if decision.events:
                wanted[:] = [Decided(before=saga, saga=fold(saga, decision.events))]
                if fault == "refused":
                    raise LogUnavailable("planted: the disk is full")
                if fault == "lost to others":
                    raise LogConflict("planted: others are faster")
                if fault == "lost and not known" or (self.appends + 1 == weather.dies_at and not weather.dies_stored):
                    raise _NotStored
            return decision

        try:
            decided = await self.inner.decide(saga_id, watched)
        except _NotStored:
            decided = None
        if not wanted:
            assert decided is not None
            return decided
        self.appends += 1
        if decided is not None:
            names = [type(event).__name__ for event in await self._events(decided)]
            self._outside.note(f"{self._fate.name} stores {saga_id[3:7]} {' '.join(names)}")
            self._outside.stored(saga_id, names)
            if decided.saga.final and not decided.before.final:
                self._outside.check_final(decided.saga)
        if self.appends == weather.dies_at:
            self._outside.note(f"{self._fate.name} dies at append {self.appends}, stored: {decided is not None}")
            self._fate.die()
            return wanted[0]
        if fault in {"stored and not known", "lost and not known"}:
            raise self._unsettled(wanted[0], stored=decided is not None)
        assert decided is not None
        return decided

    async def _events(self, decided: Decided) -> list[object]:
        return [record.event for record in await self.inner.history(decided.saga.id, after_seq=decided.before.seq)]

    def _unsettled(self, decided: Decided, *, stored: bool) -> AppendUnsettled:
        append = Append(decided.saga.id, decided.saga.seq, str(self.appends))
        self._doubts[append] = stored
        self._unreadable = self._weather.dice.choice((0, 0, 1, 3))
        self._outside.note(
            f"{self._fate.name} does not learn whether {append.saga_id[3:7]} took {append.seq}: {stored}"
        )
        return AppendUnsettled("planted: not known whether it was stored", append, decided)

    async def stored(self, append: Append) -> bool:
        await self._read()
        if self._unreadable:
            self._unreadable -= 1
            raise LogUnavailable("planted: cannot be read")
        return self._doubts[append]

    async def load(self, saga_id: str) -> Saga:
        await self._read()
        return await self.inner.load(saga_id)

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        await self._read()
        return await self.inner.busy_sagas(realm)

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
        await self._read()
        return await self.inner.sagas(
            realm,
            caller=caller,
            conversation=conversation,
            open_only=open_only,
            attention_only=attention_only,
            limit=limit,
            offset=offset,
        )

    async def saga_of_key(self, realm: str, caller: str, key: str) -> str | None:
        await self._read()
        return await self.inner.saga_of_key(realm, caller, key)

    async def pair(self, pair_hash: str) -> PairRow | None:
        await self._read()
        return await self.inner.pair(pair_hash)

    async def idle_sagas(self, realm: str, *, for_s: float) -> Sequence[SagaRow]:
        await self._read()
        return await self.inner.idle_sagas(realm, for_s=for_s)

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        await self._read()
        self._have_room()
        return await self.inner.observe(realm, seen, seconds)

    async def wait_for_change(self, seen: int = 0) -> int:
        await self._fate.alive()
        return await self.inner.wait_for_change(seen)

    async def _read(self) -> None:
        await anyio.sleep(self._weather.dice.uniform(0, 0.003))
        await self._fate.alive()
        self._be_up()

    def _be_up(self) -> None:
        if _within(self._weather.down):
            raise LogUnavailable("planted: the log is locked")

    def _have_room(self) -> None:
        if _within(self._weather.full):
            raise LogUnavailable("planted: the disk is full")

    def clear_up(self) -> None:
        """No more trouble from now on."""
        self._weather.faulty, self._weather.down, self._weather.full, self._weather.dies_at = 0.0, (), (), 0


def _within(spans: Sequence[tuple[float, float]]) -> bool:
    return any(since <= anyio.current_time() < until for since, until in spans)


class ChanceClock(SystemClock):
    """The loop's time, with draws of the schedule's."""

    def __init__(self, dice: random.Random, outside: Outside) -> None:
        self.dice = dice
        self._outside = outside

    def wall(self) -> float:
        return self._outside.wall()

    def jitter(self, longest_s: float) -> float:
        return self.dice.uniform(0, longest_s)


@dataclass
class Process:
    """The product as it runs in one process."""

    fate: Fate
    log: ChanceLog
    chance: Chance
    settings: EngineSettings
    owners: Alive
    ready: anyio.Event = field(default_factory=anyio.Event)
    engines: list[Engine] = field(default_factory=list[Engine])

    @property
    def engine(self) -> Engine:
        return self.engines[0]

    async def live(self) -> None:
        """Serve until the process dies."""
        clock = ChanceClock(self.chance.dice, self.chance.outside)
        running = Engine.running(self.settings, self.log, self.owners, catalogue(self.chance), LocalDriver, clock=clock)
        async with running as engine:
            self.engines.append(engine)
            self.ready.set()
            await self.fate.died.wait()
            await self.fate.left()


@dataclass
class Machine:
    """What all processes of a schedule share."""

    dice: random.Random
    settings: EngineSettings
    trouble: float
    database: MemoryDatabase = field(default_factory=MemoryDatabase)
    fates: dict[str, Fate] = field(default_factory=dict[str, Fate])

    def __post_init__(self) -> None:
        self.outside = Outside(self.database)

    def process(self, weather: Weather) -> Process:
        fate = Fate(f"p{len(self.fates) + 1}")
        self.fates[fate.name] = fate
        chance = Chance(
            dice=random.Random(self.dice.random()),  # noqa: S311 - a test
            outside=self.outside,
            fate=fate,
            trouble=self.trouble,
            dies_at=weather.dies_in_call,
        )
        log = ChanceLog(MemoryLog(self.database), fate, self.outside, weather)
        return Process(fate, log, chance, self.settings, Alive(self.fates, fate.name))


class _NotStored(Exception):
    pass
