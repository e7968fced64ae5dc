"""Which pairs are of one machine (SEMANTICS.md S1.3): all that call, look at or undo by something that is.

Where a pair names one tool of this machine, all of its step belongs here: it is undone as a whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from saga_mcp.tools.declared import DeclaredRegistry
from saga_mcp.tools.pair import Case, Pair


@dataclass(frozen=True, slots=True)
class Hosting:
    """This machine, and the names of the upstreams that are of a machine."""

    host: str
    upstreams: frozenset[str]

    def placed(self, pair: Pair) -> Pair:
        """The pair with its machine, if it has one."""
        cases = tuple(Case(when=case.when, pair=self.placed(case.pair)) for case in pair.cases)
        own = any(name.partition(".")[0] in self.upstreams for name in _named(pair))
        return replace(pair, cases=cases, host=self.host if own else "")

    def all_placed(self, registry: DeclaredRegistry) -> DeclaredRegistry:
        """The same of every tool of a registry."""
        if not self.upstreams:
            return registry
        tools = tuple(replace(tool, pair=self.placed(tool.pair)) for tool in registry.tools)
        return replace(registry, tools=tools)


def _named(pair: Pair) -> Iterator[str]:
    """Every tool that the pair names."""
    yield pair.tool
    for look in (pair.capture, pair.after, pair.guard, pair.probe):
        if look is not None and look.call is not None:
            yield look.call.tool
    for entry in pair.undo:
        yield entry.tool
        if entry.read is not None:
            yield entry.read.tool
        if entry.probe is not None:
            yield entry.probe.call.tool
