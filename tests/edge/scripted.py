"""A service that answers what a test scripts, and tools that only describe themselves.

For replies that the real engine gives only by accident of time, or never.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.server.lowlevel import Server

from saga_mcp.domain.events import (
    AbortRequested,
    Event,
    PartSpec,
    RollbackFinished,
    SagaOpened,
    StepFailed,
    StepIntended,
    StepPlan,
    StepSucceeded,
    UndoIntended,
    UndoParked,
    UndoSucceeded,
)
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.machine import fold
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import ItemKind, JsonObject, JsonValue, Kind, PartAction
from saga_mcp.edge.server import build_server
from saga_mcp.engine.port import Answer, Caller, CallReply, EngineSettings, Receipt, Relay
from saga_mcp.engine.waiting import OnProgress
from saga_mcp.log.port import Claim, SagaRow
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.pair import Pair, UndoEntry
from saga_mcp.tools.port import (
    Arguments,
    CallContext,
    Judged,
    Outcome,
    ProbeVerdict,
    Reader,
    StepFacts,
    Tool,
    ToolAnswer,
    Undoer,
)
from saga_mcp.tools.tool_listing import ToolListing

SAGA_ID = "sg-0000000000000000000000000" + "00"
"""A valid id: the check character of zeros is a zero."""
UNDO = (UndoEntry(tool="shop.undo"),)


@dataclass(frozen=True, slots=True)
class ToldTool:
    """A tool that is listed and never called."""

    offered: str
    pair: Pair
    listing: ToolListing
    stoppable: bool = True
    rules: AnswerRules = field(default_factory=AnswerRules)

    @property
    def reachable(self) -> bool:
        """It runs here."""
        return True

    async def reach(self, within_s: float) -> None:
        """It runs here."""
        del within_s

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        return Arguments(dict(arguments))

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        raise NotImplementedError(args, context)

    def replay(self, result: JsonValue, kept: JsonValue = None) -> ToolAnswer:
        raise NotImplementedError(result)

    async def probe(self, step: StepFacts) -> ProbeVerdict:
        raise NotImplementedError(step)


def told_tool(
    offered: str = "act",
    *,
    kind: Kind = Kind.COMPENSABLE,
    undo: tuple[UndoEntry, ...] = UNDO,
    schema: JsonObject | None = None,
    output: JsonObject | None = None,
    step_key: bool = False,
) -> ToldTool:
    """Describe a tool; its name in the config is `shop.<offered>`."""
    return ToldTool(
        offered,
        Pair(tool=f"shop.{offered}", kind=kind, undo=undo if kind is Kind.COMPENSABLE else ()),
        ToolListing(
            description="Acts.",
            input_schema={"type": "object", "properties": {"x": {}}} if schema is None else schema,
            output_schema=output,
            takes_step_key=step_key,
        ),
    )


@dataclass(frozen=True, slots=True)
class ToldCatalogue:
    """A catalogue that is only listed."""

    offered: Mapping[str, Tool]
    invariants: tuple[str, ...] = ()

    def tool(self, name: str) -> Tool | None:
        raise NotImplementedError(name)

    def undoer(self, name: str) -> Undoer | None:
        raise NotImplementedError(name)

    def reader(self, name: str) -> Reader | None:
        raise NotImplementedError(name)

    def frozen(self, pair: Pair) -> Pair:
        raise NotImplementedError(pair)

    def bind(self, pair: Pair, step: StepFacts) -> BoundUndo:
        raise NotImplementedError(pair, step)

    def unbuildable(self, pair: Pair, step: StepFacts) -> str:
        raise NotImplementedError(pair, step)

    async def violations(self, judged: Judged) -> tuple[str, ...]:
        raise NotImplementedError(judged)


@dataclass(slots=True)
class Script:
    """A service whose next answers are set by the test; it notes what it was asked.

    The only double of the engine here, so that its signatures are restated once.
    """

    reply: CallReply | Exception | Callable[[], Awaitable[CallReply]] = field(default_factory=CallReply)
    state: Saga | Exception = field(default_factory=lambda: Saga(id=SAGA_ID))
    rows: Sequence[SagaRow] = ()
    standing: Claim = Claim.HELD
    driver_trouble: str = ""
    settings: EngineSettings = field(default_factory=lambda: EngineSettings(realm="test"))
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])

    async def call(
        self,
        offered: str,
        arguments: Mapping[str, JsonValue],
        *,
        saga_id: str | None = None,
        step_key: str = "",
        caller: Caller,
        receipt: Receipt | None = None,
    ) -> CallReply:
        del receipt  # in memory nobody can tell
        self.asked.append(
            (offered, {"arguments": dict(arguments), "saga_id": saga_id, "step_key": step_key, "caller": caller})
        )
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply if isinstance(self.reply, CallReply) else await self.reply()

    async def relay(self, saga_id: str, number: int, answer: Answer) -> Relay:
        raise NotImplementedError(saga_id, number, answer)

    async def begin(self, caller: Caller, *, purpose: str = "", key: str = "", team: str = "") -> Saga:
        assert not team
        return self._state("begin", caller=caller, purpose=purpose, key=key)

    async def commit(self, saga_id: str, *, by: str, accept_failed: Sequence[int] = ()) -> Saga:
        return self._state("commit", saga_id=saga_id, by=by, accept_failed=list(accept_failed))

    async def abort(
        self,
        saga_id: str,
        *,
        cause: str,
        by: str = "",
        reason: str = "",
        to_savepoint: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Saga:
        assert on_progress is None
        return self._state("abort", saga_id=saga_id, cause=cause, by=by, reason=reason, to_savepoint=to_savepoint)

    async def revert(self, saga_id: str, order: RevertOrder, on_progress: OnProgress | None = None) -> Saga:
        assert on_progress is None
        return self._state("revert", saga_id=saga_id, order=order)

    async def savepoint(self, saga_id: str, name: str) -> Saga:
        return self._state("savepoint", saga_id=saga_id, name=name)

    async def saga(self, saga_id: str) -> Saga:
        return self._state("saga", saga_id=saga_id)

    async def paused(self) -> Mapping[str, Pause]:
        return {}

    async def overdue(self, saga: Saga) -> tuple[int, ...]:
        del saga
        return ()

    async def open_sagas(
        self, caller: Caller, *, limit: int = 100, owners: Sequence[str | None] = ()
    ) -> Sequence[SagaRow]:
        assert not owners
        self.asked.append(("open_sagas", {"caller": caller, "limit": limit}))
        return self.rows

    def _state(self, asked: str, **arguments: object) -> Saga:
        self.asked.append((asked, arguments))
        if isinstance(self.state, Exception):
            raise self.state
        return self.state


def scripted(script: Script, *tools: Tool) -> Server[Any]:
    """The real server over a script."""
    return build_server(script, ToldCatalogue({tool.offered: tool for tool in tools}), now=lambda: 100.0)


OPENED = SagaOpened(realm="test", driver="me")


def intended(number: int = 1, tool: str = "shop.act", kind: Kind = Kind.COMPENSABLE, **args: JsonValue) -> StepIntended:
    """The intent of a step."""
    return StepIntended(step=number, plan=StepPlan(tool=tool, kind=kind, args=dict(args)), owner="me")


def succeeded(number: int = 1, action: PartAction = PartAction.CALL, message: str = "") -> StepSucceeded:
    """A success whose undo is one part."""
    return StepSucceeded(step=number, parts=(PartSpec(action=action, tool="shop.undo", message=message),))


def saga_of(*events: Event) -> Saga:
    """The saga after it was opened and `events`."""
    return fold(Saga(id=SAGA_ID), (OPENED, *events))


DONE = saga_of(intended(), succeeded())
"""One step, done."""


def done(answer: ToolAnswer, saga: Saga = DONE, step: int = 1) -> CallReply:
    """The reply of a step that has its answer."""
    return CallReply(answer=answer, saga_id=saga.id, saga=saga, step=step)


def says(text: str) -> ToolAnswer:
    """A tool's answer of one text."""
    return ToolAnswer(content=({"type": "text", "text": text},))


OBJECT: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

UNDONE = saga_of(
    intended(1),
    succeeded(1),
    intended(2, "shop.fail"),
    StepFailed(step=2, error="declined"),
    AbortRequested(cause="step_failed:2", by="policy"),
    UndoIntended(step=1, part="1", owner="me"),
    UndoSucceeded(step=1, part="1"),
    RollbackFinished(),
)
UNDOING = saga_of(
    intended(1),
    succeeded(1),
    intended(2),
    succeeded(2),
    intended(3, "shop.fail"),
    StepFailed(step=3, error="declined"),
    AbortRequested(cause="step_failed:3", by="policy"),
    UndoIntended(step=2, part="1", owner="me"),
    UndoSucceeded(step=2, part="1"),
)
STUCK = saga_of(
    intended(1),
    succeeded(1, PartAction.MANUAL, "Mail to secret@example.org was sent."),
    intended(2, "shop.fail"),
    StepFailed(step=2, error="declined"),
    AbortRequested(cause="step_failed:2", by="policy"),
    UndoParked(step=1, part="1", item=ItemKind.MANUAL_UNDO, message="Mail to secret@example.org was sent."),
)


async def call(
    script: Script, era: str = "legacy", tool: ToldTool | None = None, **arguments: JsonValue
) -> types.CallToolResult:
    server = scripted(script, tool or told_tool())
    async with Client(server, mode=era) as client:
        await client.list_tools()
        return await client.call_tool("act", arguments)
