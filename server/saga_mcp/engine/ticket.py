"""What goes from a request to the task that runs its step, and what comes back.

The request only waits on the ticket: giving up the wait changes nothing about the step (DESIGN.md rule 6).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

import anyio

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.events import SagaOpened, StepPlan
from saga_mcp.domain.repeats import KnownReplies, Repeat
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.port import Caller
from saga_mcp.engine.supervise import wait_for
from saga_mcp.log.port import StepLock
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Arguments, Tool, ToolAnswer
from saga_tools.server import Report

NOT_IN_TIME = (
    "the saga log has not taken this call in time: another program may hold it; nothing was stored and nothing was "
    "sent. Try again in a moment."
)
_NONCE_BYTES = 8
_LOG_PATIENCE_S = 5.0
"""How long the log has at least to take a call before the call is withdrawn, however soon a reply is due."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What was known of the caller's earlier replies when a call arrived."""

    seen: int = 0
    received: tuple[int, ...] = ()
    unheard: tuple[Ticket, ...] = ()
    """Earlier calls without an answer: the step of each, and whether it was lost, may be known only later."""

    @property
    def lost(self) -> frozenset[int]:
        """Steps whose answer is known by now not to have reached the caller."""
        return frozenset(ticket.number for ticket in self.unheard if ticket.number and ticket.lost)

    @property
    def due(self) -> frozenset[int]:
        """Steps whose answer was still to be given."""
        return frozenset(ticket.number for ticket in self.unheard if ticket.number and not ticket.lost)


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """What a request waits on. `known` is set once the step's outcome, or the doubt about it, is durable."""

    saga_id: str
    caller: str = ""
    """Whose answer it is."""
    arrival: Arrival = Arrival()
    unproved: Callable[[Step], bool] | None = None
    """See `domain.repeats.KnownReplies`."""
    args: Arguments | None = None
    """As the tool decoded them, for one attempt: what was sent once belongs to the tool."""
    sealed: JsonObject = field(default_factory=dict[str, JsonValue])
    """Arguments that are not stored: for the attempts, as long as somebody here makes them."""
    reports: list[Report] = field(default_factory=list[Report])
    """Tell those who wait for it how far it has come."""
    come: float = -math.inf
    """How far it has come, as was told last."""
    decided: anyio.Event = field(default_factory=anyio.Event)
    """The intent is stored, or never will be."""
    known: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Nothing of the step is left to do here."""
    number: int = 0
    repeats: bool = False
    """The call is one that was made before: it joined that one, or got its stored answer."""
    replayed: bool = False
    was_idle: bool = False
    """The saga had been flagged as idle before this call."""
    saga: Saga | None = None
    answer: ToolAnswer | None = None
    sent: bool = False
    """An attempt of it may have reached the tool."""
    unsent: str = ""
    """Why none has, once there will be no further one."""
    text: str | None = None
    """What the call answered that did its work."""
    exact: bool = True
    """The result that the log holds is what the tool returned."""
    lock: StepLock | None = None
    """What the step has locked (S5.3)."""
    queue: anyio.CancelScope | None = None
    """While it waits for such a lock: to be cancelled by who will not wait any longer."""
    given_up: bool = False
    """Nobody waits any longer for it to begin."""
    seen: int = 0
    """The change of the log that was seen last, while it waits."""
    behind: bool = False
    """The log may know more of the step than `saga` does."""
    lost: bool = False
    """Its answer will not reach the caller, or only by another call."""
    error: Exception | None = None
    """The intent could not be stored, so nothing was sent; or the saga can no longer be read."""
    _taken: bool = False
    _withdrawn: bool = False
    _turn: Lock = field(default_factory=Lock)
    """The log may decide in a thread of its own."""

    def known_replies(self, alive: Callable[[str], bool]) -> KnownReplies:
        """What is known of the replies to earlier calls, for the decision what this one is."""
        known = self.arrival
        return KnownReplies(
            alive=alive, received=known.received, lost=known.lost, due=known.due, unproved=self.unproved
        )

    async def wait(self, within_s: float, clock: Clock) -> None:
        """Wait so many seconds for the outcome, and somewhat longer for the log to take the call at all."""
        if await wait_for(self.known, within_s, clock):
            return
        queued = self.queue is not None
        self.give_up()
        if queued:
            await self.known.wait()  # it is refused at once
        else:
            await wait_for(self.decided, max(0.0, _LOG_PATIENCE_S - within_s), clock)

    def reporting(self) -> Report | None:
        """Return what one attempt tells how far it has come; None where nobody asked.

        A further attempt starts again, and what is told only grows: it is silent until it has come further.
        """
        before = self.come

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if progress > before:
                self.come = max(self.come, progress)
                for tell in self.reports:
                    await tell(progress, total, message)

        return report if self.reports else None

    def take(self) -> None:
        """The intent is about to be stored; from then on it can be sent, and the caller must not be told otherwise.

        Raises:
            LogUnavailable: the caller was told already.
        """
        with self._turn:
            if self._withdrawn:
                raise LogUnavailable(NOT_IN_TIME)
            self._taken = True

    def withdraw(self) -> None:
        """Keep the intent from being stored, unless that may be too late.

        Raises:
            LogUnavailable: it is not stored, and never will be.
        """
        with self._turn:
            if not self._taken:
                self._withdrawn = True
                raise LogUnavailable(NOT_IN_TIME)

    def give_up(self) -> None:
        """Nobody waits any longer for it to begin: it goes on only if it has."""
        self.given_up = True
        if self.queue is not None:
            self.queue.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One forward action to run."""

    tool: Tool
    pair: Pair
    """What the tool is for this call."""
    plan: StepPlan
    opening: SagaOpened | None = None
    """Opens the saga in the same append, where the saga is new."""
    asks: bool = False
    """A person has to allow it first (S9.1)."""
    allowed: int = 0
    """It is the stored call of this step, which a person has allowed."""


@dataclass(frozen=True, slots=True)
class AskingCall:
    """It is a call of its own, which a person has to allow first."""


@dataclass(frozen=True, slots=True)
class AllowedCall:
    """It is the stored call that a person has allowed."""

    number: int


Call: TypeAlias = Repeat | AskingCall | AllowedCall
"""What an order turned out to be, in the state in which it was decided."""


def plan_of(pair: Pair, args: JsonObject, step_key: str, caller: Caller, *, offered: str) -> StepPlan:
    """What is frozen of a call at its intent."""
    return StepPlan(
        tool=pair.tool,
        kind=pair.kind,
        pair_hash=pair.hash,
        target_id=pair.target_id,
        host=pair.host,
        idempotent=pair.idempotent,
        has_probe=pair.has_probe,
        safe_if_absent=pair.safe_if_absent,
        guarded=pair.guard is not None,
        outlives_us=pair.outlives_us,
        looks_after=pair.looks_after,
        nonce=secrets.token_hex(_NONCE_BYTES),
        step_key=step_key,
        call_id=caller.call_id,
        caller=caller.id,
        offered=offered,
        secret=tuple(name for name in pair.secret if name in args),
        args=args,
    )
