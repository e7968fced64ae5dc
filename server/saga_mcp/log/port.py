"""The port of the saga log: the only shared mutable state in the product (SEMANTICS.md S10).

The engine and the edge know this Protocol, never an adapter. The unit of writing is a *decision*: a pure function of
the saga's current state that returns events. The log runs it against the true state, appends by compare-and-set, and
a decision that lost the race is run again on the new state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeAlias

from saga_mcp.domain.alerts import Alert
from saga_mcp.domain.errors import LogConflict, LogError, LogUnsettled
from saga_mcp.domain.events import Event
from saga_mcp.domain.holding import Holder
from saga_mcp.domain.living import Life
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """A pair as it was at an intent: immutable, named by the hash of its content (S6.1)."""

    hash: str
    content: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A saga that begins together with what another one's decision appends: both are stored, or neither is."""

    saga_id: str
    """Of its own: no other saga has it."""
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLock:
    """Who works on something, from before what is there is read to the end of the step (S5.3)."""

    realm: str
    name: str
    """Stands for what it works on, a digest in hex; stored as an HMAC of it, so that nobody can try out values."""
    saga_id: str
    owner: str
    token: str
    """Of one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a decision appends. No events: nothing is written, the caller just reads a true state."""

    events: tuple[Event, ...] = ()
    pairs: tuple[PairRow, ...] = ()
    opens: Opening | None = None
    """Only beside events of its own, which tell who was first."""
    driver: str = ""
    """Name of the driver that it is made for: a claim of it counts only where that is the realm's (S12.2)."""
    lock: StepLock | None = None
    """Under which it was made: where another one has that by now, its events are not stored (S5.3)."""


Decide: TypeAlias = Callable[[Saga], Decision]
"""Pure; may run more than once and in another thread; raises `domain.errors.Refused` to change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The outcome of a decision: the state it saw, and the state after it."""

    before: Saga
    saga: Saga
    alerts: tuple[Alert, ...] = ()
    """What there is to tell about it; stored with it where the log has an outbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One stored event."""

    seq: int
    at: float
    """Wall clock of the writer, in seconds since the epoch; for people only, nothing is decided on it."""
    event: Event
    wiped: bool = False
    """It had values, and they are gone (S11.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaRow:
    """The projection of a saga that lists are made of."""

    id: str
    realm: str
    caller: str
    conversation: str
    key: str
    purpose: str
    phase: str
    state: str
    """Reported state: the phase, or `needs_attention` (S2.2), or `quarantined` once somebody could not read it."""
    driver: str
    busy: bool
    """Something is running or due, so somebody has to drive it."""
    items: int
    """Open attention items."""
    steps: int
    seq: int
    opened_at: float
    updated_at: float
    reverted_by: str = ""
    """Ids of the sagas that undo it after its commit, separated by blanks."""


@dataclass(frozen=True, slots=True)
class Append:
    """One event of an append, by which the log can be asked whether it holds that append."""

    saga_id: str
    seq: int
    batch_id: str


class AppendUnsettled(LogUnsettled):
    """An append may be stored or not: `SagaLog.stored` tells, once the log can be read."""

    def __init__(self, message: str, append: Append, decided: Decided) -> None:
        self.append = append
        self.decided = decided
        """What `decide` would have returned; true if the append is stored."""
        super().__init__(message)


class StepLockLost(LogError):
    """Another step has what this one is about: its process counted as gone for a while (S5.3). Nothing was stored."""


class SagaKeyTaken(LogConflict):
    """Another process opened a saga under this caller's key first (S8.4). Nothing was stored."""

    def __init__(self, key: str, saga_id: str) -> None:
        self.key = key
        self.saga_id = saga_id
        super().__init__(f'Key "{key}" already names saga {saga_id}.')


class SagaLog(Protocol):
    """Append-only, durable record of every saga of a database.

    Every method raises `LogUnavailable` where the database cannot be used; the message says why and what to do.
    """

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        """Run `decide` on the saga's current state and store its events; on return they survive a power cut.

        A saga that does not exist is handed in as `Saga(id=saga_id)`. The write cannot be cancelled by the caller: a
        cancelled wait leaves the decision either wholly stored or not begun.

        Raises:
            Refused: what `decide` raised. Nothing was stored.
            ResourceHeld: an intent among the events takes hold of what another saga holds. Nothing was stored.
            ToolPaused: an intent among the events calls what is paused. Nothing was stored.
            DrivenOtherwise: a driver claims a saga that another one drives. Nothing was stored.
            StepLockLost: the lock that the decision names is another's by now. Nothing was stored.
            LogUnavailable: nothing was stored.
            AppendUnsettled: it is not known whether it was stored; ask `stored` before anything else is made of it.
            LogConflict: other processes kept winning. Nothing was stored.
            SagaKeyTaken: the saga was to be opened under a key that another one has.
            SagaQuarantined: the saga's events cannot be folded.
        """
        ...

    async def stored(self, append: Append) -> bool:
        """Whether an append of unknown outcome is in the log. Final: one that is not will not get there later.

        Raises:
            LogUnavailable: it is still not known.
        """
        ...

    async def load(self, saga_id: str) -> Saga:
        """The current state, also while another process holds the write lock.

        Raises:
            SagaNotFound: the log has no such saga.
            SagaQuarantined: its events cannot be folded.
        """
        ...

    async def history(self, saga_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[Record]:
        """The stored events in order."""
        ...

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
        """Rows of the realm, or of one caller or conversation in it, newest first.

        `open_only`: phase not final, or open items.
        """
        ...

    async def realms(self) -> Mapping[str, int]:
        """Every realm that has sagas here, and how many of them are open. Does not grow with finished ones."""
        ...

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        """Every saga of the realm that somebody has to drive. Does not grow with finished ones."""
        ...

    async def saga_of_key(self, realm: str, caller: str, key: str) -> str | None:
        """Id of the saga that `saga_begin(key)` of this caller opened (S8.4)."""
        ...

    async def pair(self, pair_hash: str) -> PairRow | None:
        """The pair as it was frozen at an intent."""
        ...

    async def hmac_key(self) -> bytes:
        """Random bytes of this database: what is not stored is known again by an HMAC with it (S11.4)."""
        ...

    async def take_lock(self, wanted: StepLock, *, over: StepLock | None = None) -> StepLock:
        """Take a lock if nobody has it; return who has it now.

        Args:
            wanted: By whom; with a token that was never used.
            over: Whose process is gone: it is taken from that one, and from nobody else, where no step of that process
                is under way in its saga. That is looked at in the same transaction, so no intent comes in between.
        """
        ...

    async def drop_lock(self, lock: StepLock) -> None:
        """Give a lock back. Harmless where it is another's by now."""
        ...

    async def holder(self, realm: str, resource: str) -> Holder | None:
        """Which saga of the realm holds `resource` (S9.2); who takes it by an intent is refused where another one does.

        That refusal is a `ResourceHeld` of `decide`.
        """
        ...

    async def pause(self, realm: str, pause: Pause) -> Pause:
        """Pause a tool: no intent that is stored from now on calls it, whoever appends it.

        Returns the pause that holds, which is the older one where it was paused already.
        """
        ...

    async def resume(self, realm: str, tool: str) -> bool:
        """Let a paused tool be called again; False: it was not paused."""
        ...

    async def paused(self, realm: str) -> Mapping[str, Pause]:
        """What is paused in the realm, by tool."""
        ...

    async def driver_of(self, realm: str) -> str:
        """Name of the driver that brings the realm's sagas to rest; empty: none has been named yet (S12.2)."""
        ...

    async def name_driver(self, realm: str, name: str, *, was: str) -> str:
        """Name the realm's driver, if `was` still is the name; return the name that holds then."""
        ...

    async def observe(self, realm: str, seen: float, seconds: float) -> float:
        """Raise the time for which the realm was watched by `seconds`, if it still is `seen`; return what it is now.

        The clock of idle time (S9.4): of several processes that count the same seconds only one gets through. A realm
        that was never watched is at 0.
        """
        ...

    async def idle_sagas(self, realm: str, *, for_s: float) -> Sequence[SagaRow]:
        """Sagas of the realm that have idled for so many watched seconds, the longest first (`attention.idles`)."""
        ...

    async def wait_for_change(self, seen: int = 0) -> int:
        """Return the number of the newest change once it is above `seen`; the start counts as change 1.

        For loops that look again whenever another process, or this one, may have appended something. The number is
        taken before the look, so nothing that happens meanwhile is missed, whoever else waits::

            seen = 0
            while True:
                seen = await log.wait_for_change(seen)
                await look()
        """
        ...


class Claim(Enum):
    """Whether others see that this process lives."""

    HELD = "held"
    AWAITED = "awaited"
    """Not now: nothing new may be started until it is held again, which is being seen to."""
    LOST = "lost"
    """Never again: its work is others'."""


class Owners(Protocol):
    """Who is alive: proved by the operating system or the database, never by comparing clocks (S3.5, S10.4)."""

    @property
    def me(self) -> str:
        """This process's owner id, fresh per process start."""
        ...

    @property
    def standing(self) -> Claim:
        """Whether others see that this process lives; known without asking."""
        ...

    @property
    def trouble(self) -> str:
        """Why the claim is not held, and what to do, for people; empty where it is."""
        ...

    async def look(self, owners: Collection[str]) -> Mapping[str, Life]:
        """What is known of the processes behind these ids; of this one, that it lives.

        Raises:
            LogUnavailable: the database has to be asked, and does not answer.
        """
        ...

    async def others_serve(self, realm: str) -> bool:
        """Whether another process lives that serves the realm, as far as can be told now.

        Raises:
            LogUnavailable: see `look`.
        """
        ...

    def mark(self) -> Path:
        """A new file of this process, for a keeper: while that has it locked, this process is not taken for dead."""
        ...
