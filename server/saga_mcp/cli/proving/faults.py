"""Failures around a call or an undo, for tools of every kind: a catalogue around the real one.

An effect is never faked: a call that "loses its reply" has really been made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from saga_mcp.domain.values import Effect, JsonObject
from saga_mcp.tools.around import CatalogueAround, ToolAround, UndoerAround
from saga_mcp.tools.port import (
    Arguments,
    CallContext,
    Lost,
    Missed,
    Outcome,
    Tool,
    ToolAnswer,
    UndoContext,
    Undoer,
    UndoMissed,
    UndoOutcome,
)

_SAID = "rehearsed failure"


class Fault(StrEnum):
    """What goes wrong, once."""

    NONE = "done, then aborted"
    BEFORE = "the call fails before it does anything"
    UNDO_BEFORE = "the undo fails before it does anything"
    UNDO_LOST = "the undo's reply is lost"
    LOST = "the call's reply is lost"
    """The last, because its effect may be left to a person, and stay in the sandbox."""


@dataclass(slots=True)
class Plan:
    """The failure that is due."""

    due: Fault = Fault.NONE

    def strikes(self, fault: Fault) -> bool:
        """Whether this one is due; then it is not any more."""
        if self.due is not fault:
            return False
        self.due = Fault.NONE
        return True


@dataclass(frozen=True, slots=True)
class FailingTool(ToolAround):
    """A tool that fails where the plan says so."""

    plan: Plan

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        """Do the forward action, or fail around it."""
        if self.plan.strikes(Fault.BEFORE):
            answer = ToolAnswer(content=({"type": "text", "text": _SAID},), is_error=True)
            return Missed(answer=answer, effect=Effect.NONE, error=_SAID)
        outcome = await self.inner.call(args, context)
        return Lost(reason=_SAID, end_known=True) if self.plan.strikes(Fault.LOST) else outcome


@dataclass(frozen=True, slots=True)
class FailingUndo(UndoerAround):
    """An undo that fails where the plan says so."""

    plan: Plan

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        """Undo, or fail around it."""
        if self.plan.strikes(Fault.UNDO_BEFORE):
            return UndoMissed(error=_SAID, effect=Effect.NONE)
        outcome = await self.inner.undo(args, context)
        return UndoMissed(error=_SAID, effect=Effect.UNKNOWN) if self.plan.strikes(Fault.UNDO_LOST) else outcome


@dataclass(frozen=True, slots=True)
class FailingCatalogue(CatalogueAround):
    """The catalogue whose tools and undos fail where the plan says so."""

    plan: Plan

    def around_tool(self, tool: Tool) -> Tool:
        """Return the tool with its failures."""
        return FailingTool(tool, self.plan)

    def around_undoer(self, name: str, undoer: Undoer) -> Undoer:
        """Return the undo with its failures."""
        del name
        return FailingUndo(undoer, self.plan)
