"""Failures where a test wants them: around a call's effect, not instead of it.

A catalogue around the real one. It hands everything on, and changes what a tool or an undo does only as often as it was
told to. An injected error passes through the same adapter as an author's own, so the engine cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypeVar

from saga_mcp.domain.values import JsonObject
from saga_mcp.testing.errors import InjectedFault
from saga_mcp.tools.around import CatalogueAround, UndoerAround
from saga_mcp.tools.failing import Often, after_work
from saga_mcp.tools.port import (
    Arguments,
    CallContext,
    Landed,
    Lost,
    Outcome,
    Tool,
    UndoContext,
    Undoer,
    UndoOutcome,
)
from saga_mcp.tools.python import PythonTool
from saga_mcp.tools.python_undo import PythonUndo, ToolAsUndo
from saga_tools.server import RegisteredTool, RegisteredUndo

When: TypeAlias = Literal["before", "after", "lost", "hang", "crash"]
UndoWhen: TypeAlias = Literal["before", "after", "hang", "crash"]

_NOT_OURS = "`{name}` is a tool of an upstream: failures can be injected into Python tools only"

R = TypeVar("R", RegisteredTool, RegisteredUndo)


@dataclass(slots=True)
class Fault:
    """One failure that was asked for."""

    name: str
    when: When
    often: Often
    error: Exception


@dataclass(slots=True)
class Faults:
    """What is to fail, and how often still.

    Attributes:
        kill: Ends the server, as SIGKILL would.
    """

    kill: Callable[[], None]
    _planned: list[Fault] = field(default_factory=list[Fault])

    def plan(self, name: str, when: When, often: Often, error: Exception | None) -> None:
        """Let calls of `name` fail; after those that are planned already."""
        self._planned.append(Fault(name, when, often, error or InjectedFault(f"injected: {name} failed {when}")))

    def strike(self, name: str) -> Fault | None:
        """Return the failure that is due for this call of `name`, and count it."""
        return next((fault for fault in self._planned if fault.name == name and fault.often.strikes()), None)

    @property
    def unused(self) -> list[str]:
        """What was planned and has not happened, in words; chance promises nothing."""
        certain = [fault for fault in self._planned if fault.often.rate is None and fault.often.left]
        return [f"{fault.name} {fault.when}, {fault.often.left} more" for fault in certain]


@dataclass(frozen=True, kw_only=True)
class FaultyTool(PythonTool):
    """A tool that fails where it was asked to."""

    faults: Faults

    @classmethod
    def around(cls, tool: Tool, faults: Faults) -> Tool:
        """Return the same tool with failures; an upstream's fails by itself, or not."""
        if not isinstance(tool, PythonTool):
            return tool
        return cls(registry=tool.registry, declared=tool.declared, listing=tool.listing, faults=faults)

    async def call(self, args: Arguments, context: CallContext) -> Outcome:
        """Do the forward action, or fail around it."""
        fault = self.faults.strike(self.pair.tool)
        if fault is not None and fault.when in {"before", "after"}:
            raising = replace(self.declared, registered=_raising(self.declared.registered, fault))
            return await PythonTool.call(replace(self, declared=raising), args, context)
        outcome = await PythonTool.call(self, args, context)
        if fault is not None:
            await after_work(fault.when, self.faults.kill)
        lost = fault is not None and isinstance(outcome, Landed)
        return Lost(reason="injected: no answer came", end_known=False) if lost else outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyUndo(UndoerAround):
    """An undo that fails where it was asked to."""

    name: str
    faults: Faults

    async def undo(self, args: JsonObject, context: UndoContext) -> UndoOutcome:
        """Undo, or fail around it."""
        fault = self.faults.strike(self.name)
        if fault is None:
            return await self.inner.undo(args, context)
        if fault.when in {"hang", "crash"}:
            await self.inner.undo(args, context)
            await after_work(fault.when, self.faults.kill)
        return await self._raising(fault).undo(args, context)

    def _raising(self, fault: Fault) -> Undoer:
        match self.inner:
            case PythonUndo(registered=registered):
                return replace(self.inner, registered=_raising(registered, fault))
            case ToolAsUndo(declared=declared):
                raising = replace(declared, registered=_raising(declared.registered, fault))
                return replace(self.inner, declared=raising)
            case _:  # pragma: no cover - `undo_named` refuses others
                return self.inner


@dataclass(frozen=True, slots=True)
class FaultyCatalogue(CatalogueAround):
    """The catalogue with tools and undos that can fail."""

    faults: Faults

    def around_tool(self, tool: Tool) -> Tool:
        """Return the tool with its failures."""
        return FaultyTool.around(tool, self.faults)

    def around_undoer(self, name: str, undoer: Undoer) -> Undoer:
        """Return the undo with its failures."""
        return FaultyUndo(inner=undoer, name=_undo_slot(name), faults=self.faults)

    def forward_named(self, name: str) -> str:
        """The name under which a tool's calls strike, by the name agents see."""
        if name not in self.inner.offered:
            raise ValueError(f"there is no tool `{name}`{_nearest(name, self.inner.offered)}")
        tool = self.inner.offered[name]
        if isinstance(tool, PythonTool):
            return tool.pair.tool
        raise ValueError(_NOT_OURS.format(name=name))

    def undo_named(self, name: str) -> str:
        """The same of an undo: by the tool it belongs to, or by the name of the function that undoes."""
        if name in self.inner.offered:
            pair = self.inner.offered[name].pair
            undos = [entry.tool for entry in pair.undo if entry.tool]
            if len(undos) != 1:
                raise ValueError(f"`{name}` has {len(undos)} undos: name the function that undoes")
            return self._slot_of(undos[0])
        registries = dict.fromkeys(tool.pair.tool.rpartition(".")[0] for tool in self.inner.offered.values())
        found = [known for each in registries if self._fails(known := f"{each}.{name}")]
        if len(found) != 1:
            raise ValueError(f"there is no tool or undo `{name}`{_nearest(name, self.inner.offered)}")
        return self._slot_of(found[0])

    def _fails(self, name: str) -> bool:
        """Whether an undo of that name can be made to fail."""
        return isinstance(self.inner.undoer(name), PythonUndo | ToolAsUndo)

    def _slot_of(self, name: str) -> str:
        if not self._fails(name):
            raise ValueError(_NOT_OURS.format(name=name))
        return _undo_slot(name)


def _undo_slot(name: str) -> str:
    """Where a function is both a tool and an undo, its two roles fail separately."""
    return f"undo {name}"


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _raising(registered: R, fault: Fault) -> R:
    """The function with an error before or after its work, in the thread or task where it works anyway."""
    function: Callable[..., Any] = registered.function
    works_first = fault.when == "after"

    def plain(*args: object, **kwargs: object) -> None:
        if works_first:
            function(*args, **kwargs)
        raise fault.error

    async def awaited(*args: object, **kwargs: object) -> None:
        if works_first:
            work: Awaitable[object] = function(*args, **kwargs)
            await work
        raise fault.error

    return replace(registered, function=awaited if registered.is_async else plain)
