"""The upstreams of one process: what they offer, what undos may call of them, and what keeps them connected."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path

import anyio

from saga_mcp.domain.values import Kind
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Reader, Undoer
from saga_mcp.tools.unsent import UpstreamDown
from saga_mcp.tools.upstream.adapter import UpstreamReader, UpstreamTool, UpstreamUndo
from saga_mcp.tools.upstream.answers import Answers
from saga_mcp.tools.upstream.connection import Upstream
from saga_mcp.tools.upstream.declared import DeclaredUpstream, DeclaredUpstreamTool, offered_name
from saga_mcp.tools.upstream.known import KnownTool, KnownTools


class ServedUpstreams:
    """Every upstream of the config.

    Args:
        declared: What the config says.
        folder: Where what is known of their tools is kept; None: nowhere.
    """

    def __init__(self, declared: Iterable[DeclaredUpstream], folder: Path | None) -> None:
        self._changed = anyio.Event()
        self.upstreams = tuple(
            Upstream(
                each,
                KnownTools(None if folder is None else folder / f"{each.name}.json", each.target_id),
                self._note_change,
            )
            for each in declared
        )
        self._by_name = {upstream.name: upstream for upstream in self.upstreams}
        self.tools = tuple(
            UpstreamTool(upstream, tool, Answers.of(tool.rules))
            for upstream in self.upstreams
            for tool in upstream.declared.tools
        )
        self._hinted: list[Mapping[str, KnownTool]] = []
        self._trusted: Mapping[str, UpstreamTool] = {}
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

    def trusted(self) -> Mapping[str, UpstreamTool]:
        """Return what upstreams whose hints are trusted call read-only themselves, by the name agents see."""
        lists = [upstream.tools for upstream in self.upstreams if upstream.declared.trusts_hints]
        if len(lists) != len(self._hinted) or any(
            now is not seen for now, seen in zip(lists, self._hinted, strict=True)
        ):
            self._hinted = lists
            self._trusted = {
                tool.offered: tool
                for upstream in self.upstreams
                if upstream.declared.trusts_hints
                for tool in _read_only(upstream)
            }
        return self._trusted

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
    async def connected(
        self, changed: Callable[[], Awaitable[None]] | None = None, mark: Callable[[], Path] | None = None
    ) -> AsyncGenerator[None]:
        """Keep them connected until the block ends; nobody waits for one to come up.

        Args:
            changed: Called when a tool is not what it was.
            mark: Names a new file for each process that is started; see the log's `Owners`.
        """
        async with anyio.create_task_group() as tasks:
            if changed is not None:
                tasks.start_soon(self._tell, changed)
            for upstream in self.upstreams:
                tasks.start_soon(upstream.run, mark)
            yield
            tasks.cancel_scope.cancel()

    async def _tell(self, changed: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await changed()


def _read_only(upstream: Upstream) -> Iterator[UpstreamTool]:
    """The tools that an upstream itself calls read-only, and the config does not speak of."""
    declared = upstream.declared
    spoken_of = {tool.tool for tool in declared.tools}
    answers = Answers.of(declared.rules)
    for known in upstream.tools.values():
        if known.says_read_only and known.name not in spoken_of:
            pair = Pair(tool=f"{declared.name}.{known.name}", kind=Kind.READ_ONLY, target_id=declared.target_id)
            offered = offered_name(declared.prefix, known.name)
            tool = DeclaredUpstreamTool(tool=known.name, offered=offered, pair=pair, rules=declared.rules)
            yield UpstreamTool(upstream, tool, answers)
