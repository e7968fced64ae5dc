"""A saga log in memory that several processes of one test share: the port's promises, without a disk.

Events are kept as the codec writes them, and each process folds them for itself, as it does over a database. Nothing
here takes time or fails; what does is put around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from saga_mcp.domain.attention import idles, items, state_with
from saga_mcp.domain.duties import busy
from saga_mcp.domain.errors import LogConflict, ResourceHeld, SagaNotFound, ToolPaused
from saga_mcp.domain.events import Event
from saga_mcp.domain.fencing import has_under_way
from saga_mcp.domain.holding import Holder, holder, taken
from saga_mcp.domain.machine import apply
from saga_mcp.domain.pausing import Pause, called_by
from saga_mcp.domain.state import Saga
from saga_mcp.log.codec import decode, dump_json, encode
from saga_mcp.log.port import Append, Decide, Decided, PairRow, Record, SagaKeyTaken, SagaRow, StepLock, StepLockLost
from saga_mcp.log.sql.folds import StoredEvent, fold_rows

_ROUNDS = 3


@dataclass
class MemoryDatabase:
    """What all processes share."""

    events: dict[str, list[StoredEvent]] = field(default_factory=dict[str, list[StoredEvent]])
    rows: dict[str, SagaRow] = field(default_factory=dict[str, SagaRow])
    heads: dict[str, Saga] = field(default_factory=dict[str, Saga])
    """The newest state of each saga, for whoever judges from outside."""
    keys: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])
    pairs: dict[str, str] = field(default_factory=dict[str, str])
    locks: dict[tuple[str, str], StepLock] = field(default_factory=dict[tuple[str, str], StepLock])
    holders: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    drivers: dict[str, str] = field(default_factory=dict[str, str])
    pauses: dict[tuple[str, str], Pause] = field(default_factory=dict[tuple[str, str], Pause])
    watched_s: dict[str, float] = field(default_factory=dict[str, float])
    idle_from_s: dict[str, float] = field(default_factory=dict[str, float])
    change: int = 1
    changed: anyio.Event = field(default_factory=anyio.Event)

    def seq(self, saga_id: str) -> int:
        return len(self.events.get(saga_id, ()))

    def append(self, old: Saga, new: Saga, rows: Sequence[StoredEvent], pairs: Sequence[PairRow]) -> None:
        """Store the events that lead from `old` to `new`, all or none.

        Raises:
            SagaKeyTaken: the saga was to be opened under a key that another one has.
            UnicodeEncodeError: a database takes no such text.
        """
        f"{new.realm}{new.caller}{new.conversation}{new.key}{new.purpose}".encode()
        if not old.opened and new.key:
            holder = self.keys.setdefault((new.realm, new.caller, new.key), new.id)
            if holder != new.id:
                raise SagaKeyTaken(new.key, holder)
        for pair in pairs:
            self.pairs.setdefault(pair.hash, dump_json(pair.content))
        self.events.setdefault(new.id, []).extend(rows)
        self.heads[new.id] = new
        self._project(new)
        self.change += 1
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    def _project(self, saga: Saga) -> None:
        now = self.watched_s.get(saga.realm, 0.0)
        if idles(saga):
            self.idle_from_s.setdefault(saga.id, now)
        else:
            self.idle_from_s.pop(saga.id, None)
        waiting = items(saga)
        known = self.rows.get(saga.id)
        at = float(self.change)
        self.rows[saga.id] = SagaRow(
            id=saga.id,
            realm=saga.realm,
            caller=saga.caller,
            conversation=saga.conversation,
            key=saga.key,
            purpose=saga.purpose,
            phase=saga.phase.value,
            state=state_with(saga, waiting),
            driver=saga.driver,
            busy=busy(saga),
            items=len(waiting),
            steps=len(saga.steps),
            seq=saga.seq,
            opened_at=known.opened_at if known else at,
            updated_at=at,
            reverted_by=" ".join(other.revert for other in saga.reverted),
        )


class MemoryLog:
    """The log as one process sees it."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._folds: dict[str, Saga] = {}

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        await anyio.lowlevel.checkpoint()
        for _ in range(_ROUNDS):
            base = self._folds.get(saga_id) or self._current(saga_id)
            old = base.seq != self._database.seq(saga_id)
            try:
                decision = decide(base)
                saga, rows = _appended(base, decision.events)
            except Exception:
                if not old:
                    raise
            else:
                if not old:
                    for tool in called_by(saga, decision.events):
                        if paused := self._database.pauses.get((saga.realm, tool)):
                            raise ToolPaused(tool, paused.by, paused.note)
                    self._take(saga, decision.events)
                    if rows and decision.lock is not None:
                        self._require(decision.lock)
                    if (opening := decision.opens) is not None:
                        opened, others = _appended(Saga(id=opening.saga_id), opening.events)
                        self._take(opened, opening.events)
                        self._database.append(Saga(id=opened.id), opened, others, ())
                    if rows:
                        self._database.append(base, saga, rows, decision.pairs)
                        self._folds[saga_id] = saga
                    return Decided(before=base, saga=saga)
            self._folds[saga_id] = self._current(saga_id)
        raise LogConflict(f"other processes kept changing saga {saga_id} first")

    def _take(self, saga: Saga, events: Sequence[Event]) -> None:
        for plan in taken(events):
            held = self._holder(saga.realm, plan.resource)
            if held is not None and held.saga_id != saga.id:
                raise ResourceHeld(plan.tool, held.saga_id, plan.resource, waits=held.waits)
            self._database.holders[saga.realm, plan.resource] = saga.id

    def _require(self, lock: StepLock) -> None:
        if self._database.locks.get((lock.realm, lock.name)) != lock:
            raise StepLockLost(f"another step than one of saga {lock.saga_id} has it")

    async def stored(self, append: Append) -> bool:
        raise AssertionError(f"nothing is ever unsettled here, and {append} is said to be")

    async def load(self, saga_id: str) -> Saga:
        await anyio.lowlevel.checkpoint()
        saga = self._current(saga_id)
        if not saga.opened:
            raise SagaNotFound(saga_id)
        self._folds[saga_id] = saga
        return saga

    def _current(self, saga_id: str) -> Saga:
        known = self._folds.get(saga_id) or Saga(id=saga_id)
        return fold_rows(known, self._database.events.get(saga_id, ())[known.seq :])

    async def history(self, saga_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[Record]:
        await anyio.lowlevel.checkpoint()
        rows = self._database.events.get(saga_id, ())[after_seq : after_seq + limit]
        return [
            Record(seq=seq, at=0.0, event=decode(kind, version, facts, payload))
            for seq, kind, version, facts, payload in rows
        ]

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
        await anyio.lowlevel.checkpoint()
        found = [
            row
            for row in self._database.rows.values()
            if row.realm == realm
            and (caller is None or row.caller == caller)
            and (conversation is None or row.conversation == conversation)
            and (not open_only or _is_open(row))
            and (not attention_only or row.items)
        ]
        return sorted(found, key=lambda row: -row.opened_at)[offset : offset + limit]

    async def realms(self) -> Mapping[str, int]:
        await anyio.lowlevel.checkpoint()
        found: dict[str, int] = {}
        for row in self._database.rows.values():
            found[row.realm] = found.get(row.realm, 0) + _is_open(row)
        return found

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        await anyio.lowlevel.checkpoint()
        return [row for row in self._database.rows.values() if row.realm == realm and row.busy]

    async def saga_of_key(self, realm: str, caller: str, key: str) -> str | None:
        await anyio.lowlevel.checkpoint()
        return self._database.keys.get((realm, caller, key))

    async def pair(self, pair_hash: str) -> PairRow | None:
        await anyio.lowlevel.checkpoint()
        content = self._database.pairs.get(pair_hash)
        return None if content is None else PairRow(hash=pair_hash, content=json.loads(content))

    async def pause(self, realm: str, pause: Pause) -> Pause:
        await anyio.lowlevel.checkpoint()
        return self._database.pauses.setdefault((realm, pause.tool), pause)

    async def resume(self, realm: str, tool: str) -> bool:
        await anyio.lowlevel.checkpoint()
        return self._database.pauses.pop((realm, tool), None) is not None

    async def paused(self, realm: str) -> Mapping[str, Pause]:
        await anyio.lowlevel.checkpoint()
        return {tool: pause for (of_realm, tool), pause in self._database.pauses.items() if of_realm == realm}

    async def driver_of(self, realm: str) -> str:
        await anyio.lowlevel.checkpoint()
        return self._database.drivers.get(realm, "")

    async def name_driver(self, realm: str, name: str, *, was: str) -> str:
        await anyio.lowlevel.checkpoint()
        if self._database.drivers.get(realm, "") == was:
            self._database.drivers[realm] = name
        return self._database.drivers[realm]

    async def hmac_key(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return b"of this database"

    async def take_lock(self, wanted: StepLock, *, over: StepLock | None = None) -> StepLock:
        await anyio.lowlevel.checkpoint()
        locks, here = self._database.locks, (wanted.realm, wanted.name)
        if over is not None and locks.get(here) == over and not has_under_way(self._current(over.saga_id), over.owner):
            del locks[here]
        return locks.setdefault(here, wanted)

    async def drop_lock(self, lock: StepLock) -> None:
        await anyio.lowlevel.checkpoint()
        here = (lock.realm, lock.name)
        if self._database.locks.get(here) == lock:
            del self._database.locks[here]

    async def holder(self, realm: str, resource: str) -> Holder | None:
        await anyio.lowlevel.checkpoint()
        return self._holder(realm, resource)

    def _holder(self, realm: str, resource: str) -> Holder | None:
        last = self._database.holders.get((realm, resource))
        return None if last is None else holder(self._current(last), resource)

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        await anyio.lowlevel.checkpoint()
        now = self._database.watched_s.setdefault(realm, 0.0)
        if now == seen:
            now = self._database.watched_s[realm] = now + seconds
        return now

    async def idle_sagas(self, realm: str, *, for_s: float) -> Sequence[SagaRow]:
        await anyio.lowlevel.checkpoint()
        since = self._database.idle_from_s
        latest = self._database.watched_s.get(realm, 0.0) - for_s
        found = [
            row
            for row in self._database.rows.values()
            if row.realm == realm and since.get(row.id, latest + 1) <= latest
        ]
        return sorted(found, key=lambda row: since[row.id])

    async def wait_for_change(self, seen: int = 0) -> int:
        await anyio.lowlevel.checkpoint()
        while self._database.change <= seen:
            await self._database.changed.wait()
        return self._database.change


def _appended(base: Saga, events: Sequence[Event]) -> tuple[Saga, list[StoredEvent]]:
    """The state after the events, and how they are stored."""
    saga, rows = base, list[StoredEvent]()
    for event in events:
        saga = apply(saga, event)
        kind, version, facts, payload = encode(event)
        rows.append((saga.seq, kind, version, facts, payload))
    return saga, rows


def _is_open(row: SagaRow) -> bool:
    return row.phase not in {"committed", "compensated"} or row.items > 0
