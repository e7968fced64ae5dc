"""A catalogue around another one, and a tool and an undo around others: they hand everything on.

On this layer because they are the port's; their users make tools fail, for tests of pairs and for their rehearsal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import (
    Arguments,
    CallContext,
    Catalogue,
    Judged,
    Outcome,
    ProbeVerdict,
    Reader,
    StepFacts,
    Tool,
    ToolAnswer,
    UndoContext,
    Undoer,
    UndoMissed,
    UndoOutcome,
)
from saga_mcp.tools.tool_listing import ToolListing


@dataclass(frozen=True, slots=True)
class ToolAround:
    """See the port's `Tool`."""

    inner: Tool

    @property
    def listing(self) -> ToolListing:
        """The tool's own."""
        return self.inner.listing

    @property
    def offered(self) -> str:
        """The tool's own."""
        return self.inner.offered

    @property
    def pair(self) -> Pair:
        """The tool's own."""
        return self.inner.pair

    @property
    def rules(self) -> AnswerRules:
        """The tool's own."""
        return self.inner.rules

    @property
    def stoppable(self) -> bool:
        """The tool's own."""
        return self.inner.stoppable

    @property
    def reachable(self) -> bool:
        """The tool's own."""
        return self.inner.reachable

    async def reach(self, within_s: float) -> None:
        """As the tool does."""
        await self.inner.reach(within_s)

    def decode(self, arguments: Mapping[str, JsonValue]) -> Arguments:
        """As the tool does."""
        return self.inner.decode(arguments)

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        """Do the forward action."""
        return await self.inner.call(args, context)

    def replay(self, result: JsonValue, kept: JsonValue) -> ToolAnswer:
        """As the tool does."""
        return self.inner.replay(result, kept)

    async def probe(self, step: StepFacts) -> ProbeVerdict:
        """As the tool does."""
        return await self.inner.probe(step)


@dataclass(frozen=True, slots=True)
class UndoerAround:
    """See the port's `Undoer`."""

    inner: Undoer

    @property
    def stoppable(self) -> bool:
        """The undo's own."""
        return self.inner.stoppable

    @property
    def target_id(self) -> str:
        """The undo's own."""
        return self.inner.target_id

    @property
    def rules(self) -> AnswerRules | None:
        """The undo's own."""
        return self.inner.rules

    @property
    def schema(self) -> JsonObject | None:
        """The undo's own."""
        return self.inner.schema

    async def reach(self) -> UndoMissed | None:
        """As the undo does."""
        return await self.inner.reach()

    async def comes_up(self) -> None:
        """As the undo does."""
        await self.inner.comes_up()

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        """Undo."""
        return await self.inner.undo(args, context)


@dataclass(frozen=True, slots=True)
class CatalogueAround:
    """See the port's `Catalogue`."""

    inner: Catalogue

    def around_tool(self, tool: Tool) -> Tool:
        """Return what stands in place of a tool."""
        return tool

    def around_undoer(self, name: str, undoer: Undoer) -> Undoer:
        """Return what stands in place of what an undo part of that name calls."""
        del name
        return undoer

    @property
    def offered(self) -> Mapping[str, Tool]:
        """Governed tools by the name agents see."""
        return {name: self.around_tool(tool) for name, tool in self.inner.offered.items()}

    def tool(self, name: str) -> Tool | None:
        """A governed tool by its name in the config."""
        tool = self.inner.tool(name)
        return None if tool is None else self.around_tool(tool)

    def undoer(self, name: str) -> Undoer | None:
        """What an undo part of that name calls."""
        undoer = self.inner.undoer(name)
        return None if undoer is None else self.around_undoer(name, undoer)

    def reader(self, name: str) -> Reader | None:
        """What a capture, guard and the like of that name calls."""
        return self.inner.reader(name)

    def frozen(self, pair: Pair) -> Pair:
        """What is stored of a pair at an intent."""
        return self.inner.frozen(pair)

    def bind(self, pair: Pair, step: StepFacts) -> BoundUndo:
        """Build the undo of a step."""
        return self.inner.bind(pair, step)

    def unbuildable(self, pair: Pair, step: StepFacts) -> str:
        """Why a call's undo could never be built."""
        return self.inner.unbuildable(pair, step)

    @property
    def invariants(self) -> tuple[str, ...]:
        """Names of the rules."""
        return self.inner.invariants

    async def violations(self, judged: Judged) -> tuple[str, ...]:
        """Names of the rules that do not hold."""
        return await self.inner.violations(judged)
