"""A catalogue around another one: hands everything on, and may put something around each tool and undo.

On this layer because it is the port's; its users make tools fail, for tests of pairs and for their rehearsal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Catalogue, Judged, Reader, StepFacts, Tool, Undoer


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
