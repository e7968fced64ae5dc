"""The upstreams of one process: what they offer, what undos may call of them, and what keeps them connected."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import anyio

from saga_mcp.domain.values import Kind
from saga_mcp.tools.port import Reader, Undoer, UpstreamDown
from saga_mcp.tools.upstream.adapter import UpstreamReader, UpstreamTool, UpstreamUndo
from saga_mcp.tools.upstream.answers import Answers
from saga_mcp.tools.upstream.connection import Upstream
from saga_mcp.tools.upstream.declared import DeclaredUpstream
from saga_mcp.tools.upstream.known import KnownTools


class ServedUpstreams:
    """Every upstream of the config.

    Args:
        declared: What the config says.
        folder: Where what is known of their tools is kept.
    """

    def __init__(self, declared: Iterable[DeclaredUpstream], folder: Path) -> None:
        self._changed = anyio.Event()
        self.upstreams = tuple(
            Upstream(each, KnownTools(folder / f"{each.name}.json", each.target_id), self._note_change)
            for each in declared
        )
        self._by_name = {upstream.name: upstream for upstream in self.upstreams}
        self.tools = tuple(
            UpstreamTool(upstream, tool, Answers.of(tool.rules))
            for upstream in self.upstreams
            for tool in upstream.declared.tools
        )
        self.hidden = frozenset(tool.pair.tool for tool in self.tools if not tool.declared.listed)
        self._answers = {tool.pair.tool: tool.answers for tool in self.tools}

    @property
    def readers(self) -> Mapping[str, Reader]:
        """What captures, guards and the like call: the tools that are declared to change nothing."""
        return {
            tool.pair.tool: UpstreamReader(upstream=tool.upstream, tool=tool.declared.tool, answers=tool.answers)
            for tool in self.tools
            if tool.pair.kind is Kind.READ_ONLY
        }

    def undoer(self, name: str) -> Undoer | None:
        """Return what an undo part of that name calls: any tool of an upstream, declared or not."""
        owner, _, tool = name.partition(".")
        upstream = self._by_name.get(owner)
        if upstream is None:
            return None
        answers = self._answers.get(name)
        if answers is None:
            answers = self._answers[name] = Answers.of(upstream.declared.rules)
        return UpstreamUndo(upstream=upstream, tool=tool, answers=answers)

    async def settled(self, within_s: float) -> None:
        """Wait until each is up, or known not to come up; no longer than that, in seconds."""

        async def one(upstream: Upstream) -> None:
            with contextlib.suppress(UpstreamDown):
                await upstream.ready(within_s)

        async with anyio.create_task_group() as tasks:
            for upstream in self.upstreams:
                tasks.start_soon(one, upstream)

    def _note_change(self) -> None:
        self._changed.set()

    @contextlib.asynccontextmanager
    async def connected(self, changed: Callable[[], Awaitable[None]] | None = None) -> AsyncGenerator[None]:
        """Keep them connected until the block ends; nobody waits for one to come up.

        Args:
            changed: Called when a tool is not what it was.
        """
        async with anyio.create_task_group() as tasks:
            if changed is not None:
                tasks.start_soon(self._tell, changed)
            for upstream in self.upstreams:
                tasks.start_soon(upstream.run)
            yield
            tasks.cancel_scope.cancel()

    async def _tell(self, changed: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await changed()
