"""What the edge and the command ask of the engine, and the driver port (DESIGN.md sections 5.3 and 7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.ids import normal_saga_id
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import OnError, OnIdle, OnUndoFailure
from saga_mcp.tools.port import ToolAnswer
from saga_tools.server import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What the config says about every saga of this realm."""

    realm: str
    host: str = ""
    """Id of this machine (S1.3); empty: it has none, and does nothing for a step of one that has."""
    on_error: OnError = OnError.ABORT
    on_undo_failure: OnUndoFailure = OnUndoFailure.HALT
    saga_id_required: bool = False
    reply_within_s: float = 25.0
    """No reply takes longer; work that does goes on (DESIGN.md rule 6)."""
    probe_for_s: float = 30.0
    """How long probing looks for a verdict before the policy acts without one (S4.2)."""
    recovery_every_s: float = 1.0
    """How often work of dead processes is looked for, besides when the log changes."""
    idle_flag_s: float = 3600.0
    """Watched seconds without a step after which a saga becomes an attention item (S9.4)."""
    idle_end_s: float = 86400.0
    """Watched seconds without a step after which `on_idle` is carried out."""
    on_idle: OnIdle = OnIdle.FLAG
    approval_expires_s: float = 86400.0
    """How long a person may take to allow a call, by the wall clock (S9.1)."""
    ask_in_client: bool = False
    """Calls that a person has to allow are also put to the client that made them, where it can ask."""
    revert_window_s: float = 604800.0
    """For how long after its commit a saga can be reverted, by the wall clock; 0: not at all (S13)."""
    agent_may_revert: bool = False
    """The agent may revert what its undos look at first."""
    audit_reads: bool = False
    """Read-only calls that name a saga are recorded in it (S11.2)."""
    replay_window_s: float = 600.0
    """For how long a reply over HTTP that nothing proves to be received may be repeated (S8.3)."""
    running_steps: int = 0
    """How many steps of one remote caller may run in this process; 0: any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client says that a person answered to a question; it may have answered by itself."""

    allowed: bool
    by: str
    """Says that it was relayed, and by which client."""
    note: str = ""


Ask: TypeAlias = Callable[[Saga, int], Awaitable[Answer | None]]
"""Puts the question at a step to the client of a call, and waits for its answer; None: nobody gave one."""


class Relay(StrEnum):
    """How it went with a question that was put to a client."""

    NOT_PUT = ""
    OPEN = "open"
    """It has not been answered yet."""
    UNANSWERED = "unanswered"
    """The client could not ask, or the person closed the question without an answer. It stays open elsewhere."""
    SETTLED = "settled"
    """By the client's answer, or elsewhere before that."""
    TOO_LATE = "too_late"
    """The client's answer came when the question was settled already, and changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls. On stdio there is one user, whose id is empty (S1.4)."""

    id: str = ""
    conversation: str = ""
    """The client's own name for the conversation, where it sends one (S1.5)."""
    call_id: str = ""
    """The client's own id of this call, where it sends one (S8.3)."""
    remote: bool = False
    """Over HTTP: a reply that was sent may be lost unseen (S8.1)."""
    opening: Callable[[str], AbstractAsyncContextManager[object]] = field(
        default=nullcontext, compare=False, repr=False
    )
    """Entered, with its id, around whatever may open a saga; refuses where the caller may open no more."""
    report: Report | None = field(default=None, compare=False, repr=False)
    """Tells it how far this call has come; None: it did not ask."""
    ask: Ask | None = field(default=None, compare=False, repr=False)
    """Asks the person behind it whether this call may be made; None: it cannot, or is not to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReply:
    """What a governed call answers."""

    answer: ToolAnswer | None = None
    """The tool's own answer; None where there is none yet."""
    code: str = ""
    """Empty: it succeeded. Else `step_failed`, `outcome_unknown`, `still_running`, `approval_needed` or
    `upstream_down` (DESIGN.md 5.3)."""
    unsent: str = ""
    """Why nothing was sent, where the tool's server is not there or did not let the call in."""
    saga_id: str = ""
    """Empty for a read-only call."""
    saga: Saga | None = None
    """The saga's state when the reply was made; None for a read-only call, or while the intent is not stored yet."""
    step: int = 0
    """Number of the call's step; 0 for a read-only call, or while the intent is not stored yet."""
    opened: bool = False
    """This call opened the saga."""
    was_idle: bool = False
    """The saga had been flagged as idle when the call came."""
    replayed: bool = False
    """Nothing was sent: it is the stored answer of an equal call (S8)."""
    relay: Relay = Relay.NOT_PUT
    """What became of the question, if the call needs an approval and it was put to the client."""


class Receipt(Protocol):
    """What becomes of the reply to one call, from a transport that can tell (S8.1)."""

    def follow(self, written: Callable[[], None], lost: Callable[[], None]) -> None:
        """Call `written` once the reply is with the caller, and `lost` when it will not be or was not wanted any more.

        `lost` may come after `written`, never before it.
        """
        ...


class UnknownTool(Exception):
    """There is no governed tool of this name."""

    def __init__(self, name: str, nearest: str = "") -> None:
        self.name = name
        hint = f' Did you mean "{nearest}"?' if nearest else ""
        super().__init__(f'Unknown tool "{name}". Nothing was sent.{hint}')


class SagaIdMissing(Exception):
    """Saga ids are required, and the call brought none: nothing was sent."""

    def __init__(self) -> None:
        super().__init__("Nothing was sent. Call saga_begin first and pass its saga_id.")


class SagaIdMistyped(Exception):
    """The text cannot be a saga id: its check character does not fit."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(
            f'"{text[:80]}" is not a saga id: it is mistyped or cut. Nothing was sent. '
            "Copy the id of an earlier reply, or call saga_begin."
        )


def named_saga(text: str) -> str:
    """Return a saga id as the log stores it.

    Raises:
        SagaIdMistyped: it cannot be one.
    """
    name = normal_saga_id(text)
    if name is None:
        raise SagaIdMistyped(text)
    return name


class Allowances(Protocol):
    """Sends stored calls that people have allowed."""

    async def send(self, saga: Saga, number: int) -> None:
        """Send the stored call of step `number`."""
        ...


class Resender(Protocol):
    """Sends retriable steps again."""

    async def resend(self, saga: Saga, number: int) -> None:
        """Send step `number` again, with the same key."""
        ...


class SagaDriver(Protocol):
    """Makes sure that a saga is being driven to rest (DESIGN.md section 7). Nothing else knows which driver runs."""

    @property
    def trouble(self) -> str:
        """Why what is due is not done now, though it is recorded; empty: it is."""
        ...

    async def wake(self, saga_id: str) -> None:
        """Something is due, or may be: drive it."""
        ...

    async def rest(self, saga_id: str) -> None:
        """Return when nothing of the saga runs or is due any more, whoever drives it.

        Raises:
            DriverUnavailable: something is due, and nobody can be told of it now.
        """
        ...

    def start(self, resender: Resender, allowances: Allowances) -> None:
        """Begin to look after the realm's sagas, in the background."""
        ...

    def stop(self) -> None:
        """Begin no new undo."""
        ...

    async def stopped(self) -> None:
        """Return when what was under way is recorded."""
        ...


PersonDecision = Callable[[Saga, Driving], tuple[Event, ...]]
"""A decision of `domain.person_decisions` with the person's words already filled in."""
