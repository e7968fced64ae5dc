"""What goes from a request to the task that runs its step, and what comes back.

The request only waits on the ticket: giving up the wait changes nothing about the step (DESIGN.md rule 6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import anyio

from saga_mcp.domain.events import SagaOpened, StepPlan
from saga_mcp.domain.state import Saga
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Arguments, Tool, ToolAnswer


@dataclass(frozen=True, slots=True)
class Arrival:
    """What was known of the caller's earlier replies when a call arrived."""

    seen: int = 0
    received: tuple[int, ...] = ()
    lost: frozenset[int] = frozenset()


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """What a request waits on. `known` is set once the step's outcome, or the doubt about it, is durable."""

    saga_id: str
    args: Arguments | None = None
    """As the tool decoded them, for one attempt: what was sent once belongs to the tool."""
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
    error: Exception | None = None
    """The intent could not be stored, so nothing was sent; or the saga can no longer be read."""
    _taken: bool = False
    _withdrawn: bool = False
    _turn: Lock = field(default_factory=Lock)
    """The log may decide in a thread of its own."""

    def take(self) -> bool:
        """Whether the intent may be stored; from then on it can be sent, and the caller must not be told otherwise."""
        with self._turn:
            self._taken = not self._withdrawn
            return self._taken

    def withdraw(self) -> bool:
        """Whether the intent is not stored, and never will be: then the caller can be told that nothing was sent."""
        with self._turn:
            self._withdrawn = not self._taken
            return self._withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One forward action to run."""

    tool: Tool
    pair: Pair
    """What the tool is for this call."""
    plan: StepPlan
    opening: SagaOpened | None
    """Opens the saga in the same append, where the saga is new."""
    arrival: Arrival
