"""The port of the tools: where forward actions, undos and probes go. The engine knows this module, never an adapter.

An adapter turns whatever happened into one of a few outcomes and never raises for what a tool did; the engine's rules
rest on which outcome it was. `Landed` and `Missed` are answers, so the call has ended; `Lost` is the absence of one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from saga_mcp.domain.frozen import BoundUndo, PartSpec
from saga_mcp.domain.values import Effect, JsonObject, JsonValue, Urgency
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.tool_listing import ToolListing
from saga_mcp.tools.unsent import Unsent
from saga_tools.server import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What the caller of a tool gets to see, in the shapes of MCP: passed on unchanged."""

    content: tuple[JsonObject, ...] = ()
    """Content blocks as the protocol writes them."""
    structured: JsonValue = None
    has_structured: bool = False
    is_error: bool = False
    meta: JsonObject | None = None

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(str(block["text"]) for block in self.content if block.get("type") == "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The tool did its work."""

    answer: ToolAnswer
    result: JsonValue
    """What undo expressions see as `result`, exact: integers keep every bit."""
    kept: JsonValue = None
    """What `replay` needs besides the result; stored with it."""
    known: bool = True
    """False: that it landed is known, its result is not."""
    exact: bool = True
    """False: `result` is not all that the tool returned, so no undo may be built from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """The tool answered with an error; `effect` says what is known about its effect (S4.5)."""

    answer: ToolAnswer
    effect: Effect
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """There will be no answer: the transport or the process is gone."""

    reason: str
    end_known: bool
    """The call is proved to have ended."""


Outcome: TypeAlias = Landed | Missed | Lost | Unsent


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The undo took effect, or there was nothing left to undo."""

    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoMissed:
    """The undo answered with an error, or nothing was heard of it."""

    error: str
    effect: Effect
    unreached: str = ""
    """Name of the upstream that could not be reached, which costs time, not attempts (S6.5); empty: it was."""
    until_up: bool = False
    """That upstream is down, and to be tried as soon as it is up; else it may be up, and let nothing in."""
    end_known: bool = True
    """False: there was no answer, and the call may still go on."""
    answered: bool = False
    """Whether that is what the undo itself said: then it may mean that there is nothing left to undo."""
    text: str = ""
    """The answer's own text and result, for `done_when`; an error without them speaks for itself."""
    result: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AsksPerson:
    """The undo says that only a person can do it."""

    message: str
    urgency: Urgency = Urgency.NORMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class GivesUp:
    """The undo says that trying again is useless: dead letter at once."""

    message: str


UndoOutcome: TypeAlias = Undone | UndoMissed | AsksPerson | GivesUp


@dataclass(frozen=True, slots=True)
class Absent:
    """A probe found that the step had no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoVerdict:
    """A probe could not tell."""

    error: str = ""


ProbeVerdict: TypeAlias = Landed | Absent | NoVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """What a read said, `now` of expressions. Whether an error of it means "not there" only the pair can tell."""

    text: str = ""
    """All text blocks, joined by newlines."""
    result: JsonValue = None
    """As `Landed.result` of the same tool; an answer without one has None."""
    is_error: bool = False
    error: str = ""
    """What went wrong, where `is_error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailed:
    """The read got no answer, which says nothing about the world."""

    reason: str
    unreached: str = ""
    """Name of the upstream that could not be reached, which costs an undo time, not attempts (S6.5); empty: it was."""


ReadOutcome: TypeAlias = ReadAnswer | ReadFailed
RegisterUndo: TypeAlias = Callable[[PartSpec], Awaitable[None]]
"""Registers the undo of one part of a running call, with its limits; durable when it returns (S6.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What a step's undo and probe may look at, all of it frozen (S6.1)."""

    saga_id: str
    tool: str
    """The forward action's name in the config."""
    number: int
    key: str
    args: JsonObject
    sealed: frozenset[str] = frozenset()
    """Names of the arguments that were not stored."""
    result: JsonValue = None
    known: bool = False
    exact: bool = True
    """Whether there is a result, and whether it is what the tool returned."""
    text: str | None = None
    """What the call itself answered; None: not at hand, as it is not stored."""
    capture: JsonValue = None
    """What was there before it: `found`, `result`, `text`."""
    image: JsonValue = None
    """The same right after it: what an unchanged world looks like (S6.7)."""
    after: JsonValue = None
    """What the pair's own read of the time after it brought."""
    results: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The last result of each tool of this saga, by offered name, as of the step's intent."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call."""

    json: JsonObject
    """What is logged, sent and used for the undo; defaults included."""
    native: object = None
    """What the adapter made of them when it decoded them, for the call that follows; None: nothing, or long ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a forward action is told about itself."""

    saga_id: str
    number: int
    key: str
    """The step's idempotency key: the same for all its attempts."""
    attempt: int
    register_undo: RegisterUndo
    rules: AnswerRules | None = None
    """How its answer is read, as of the step's intent; None: as today."""
    report: Report | None = None
    """None: nobody wants to know how far it has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoContext:
    """What an undo is told about its step and itself."""

    step: StepFacts
    undo_key: str
    cause: str
    rules: AnswerRules | None = None
    """How its answers are read, as of the step's intent; None: as they are today."""
    schema: JsonObject | None = None
    """What it took at that time; None: not known."""


class Tool(Protocol):
    """One governed tool."""

    @property
    def listing(self) -> ToolListing:
        """What `tools/list` is made of."""
        ...

    @property
    def offered(self) -> str:
        """The name under which agents see it."""
        ...

    @property
    def pair(self) -> Pair:
        """What is frozen at an intent."""
        ...

    @property
    def rules(self) -> AnswerRules:
        """How its answers are read today."""
        ...

    @property
    def stoppable(self) -> bool:
        """Whether a call past its hard deadline can be cancelled; a thread cannot (S3.3)."""
        ...

    @property
    def reachable(self) -> bool:
        """Whether a call could be sent right now."""
        ...

    async def reach(self, within_s: float) -> None:
        """Wait so many seconds at most until a call could be sent.

        Raises:
            UpstreamDown: none could.
        """
        ...

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        """Validate once, against the tool's own schema; defaults included (DESIGN.md rule 8).

        Raises:
            InvalidArguments: they do not fit; every problem at once.
        """
        ...

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        """Do the forward action. Cancelling it ends a stoppable tool; a thread goes on, and so must the wait for it."""
        ...

    def replay(self, result: JsonValue, kept: JsonValue) -> ToolAnswer:
        """The answer that a stored result was given with (S8), of both as in `Landed`; too much is not kept: None."""
        ...

    async def probe(self, step: StepFacts) -> ProbeVerdict:
        """Ask whether the step landed. Only called where the pair has a probe."""
        ...


class Asked(Protocol):
    """Something that an undo asks, and that may be down."""

    async def reach(self) -> UndoMissed | None:
        """Wait a short while for it; what became of the undo's attempt where it is down: nothing was sent."""
        ...

    async def comes_up(self) -> None:
        """Return when it can be reached, at once where it can be now."""
        ...


class Undoer(Asked, Protocol):
    """Something an undo part can call."""

    @property
    def stoppable(self) -> bool:
        """Whether a call past its hard deadline can be cancelled."""
        ...

    @property
    def target_id(self) -> str:
        """Where it acts: a step is undone only where it was done (S1.2)."""
        ...

    @property
    def rules(self) -> AnswerRules | None:
        """How its answers are read today; None: code says it."""
        ...

    @property
    def schema(self) -> JsonObject | None:
        """What it takes today; None: not known, or code says it."""
        ...

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        """Undo. Never raises for what the undo did."""
        ...


class Reader(Asked, Protocol):
    """A read-only tool in the service of another one's step: as capture, guard, `after`, `read` or probe."""

    @property
    def target_id(self) -> str:
        """Where it looks: a step's world is read only where the step was done (S1.2)."""
        ...

    @property
    def rules(self) -> AnswerRules | None:
        """How its answers are read today; None: code says it."""
        ...

    async def read(self, args: JsonObject, step: StepFacts, rules: AnswerRules | None = None) -> ReadOutcome:
        """Read, by these rules or today's. Never raises for what the tool did; whoever asks sets the time limit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What rules look at when a step has succeeded (S9.3)."""

    results: Mapping[str, JsonValue]
    """The last result of each tool, by the name agents see; this step's own among them."""
    args: JsonObject = field(default_factory=dict[str, JsonValue])
    """The step's."""
    result: JsonValue = None
    """The step's."""


class Catalogue(Protocol):
    """Everything this process can call, a pure function of the config."""

    @property
    def offered(self) -> Mapping[str, Tool]:
        """Governed tools by the name agents see, in a fixed order."""
        ...

    def tool(self, name: str) -> Tool | None:
        """A governed tool by its name in the config."""
        ...

    def undoer(self, name: str) -> Undoer | None:
        """What an undo part of that name calls; None: not available here."""
        ...

    def reader(self, name: str) -> Reader | None:
        """What a capture, guard, `after`, `read` or probe calls by that name; None: nothing here, or not read-only."""
        ...

    def frozen(self, pair: Pair) -> Pair:
        """What is stored of a pair at an intent: with it, what the tools that it calls are now (S6.1)."""
        ...

    def bind(self, pair: Pair, step: StepFacts) -> BoundUndo:
        """Build the undo of a step from its frozen pair, or say why it cannot be built (S6.1). Never raises."""
        ...

    def unbuildable(self, pair: Pair, step: StepFacts) -> str:
        """Why a call's undo could never be built, as far as its arguments and its capture tell; empty: it could."""
        ...

    @property
    def invariants(self) -> tuple[str, ...]:
        """Names of the rules over the results; empty: `violations` need not be asked."""
        ...

    async def violations(self, judged: Judged) -> tuple[str, ...]:
        """Names of the invariants that do not hold (S9.3). Never raises; a rule that fails or hangs is violated."""
        ...
