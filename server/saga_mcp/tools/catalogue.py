"""Everything this process can call: the port's `Catalogue`, as the config names it.

`ConfiguredCatalogue` knows tools and undoers by the port alone; which adapters there are, only `catalogue_of` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.values import Kind
from saga_mcp.tools.declared import DeclaredRegistry
from saga_mcp.tools.freezing import Freezer
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Judged, Reader, StepFacts, Tool, Undoer
from saga_mcp.tools.python import PythonRegistry, PythonTool
from saga_mcp.tools.python_reads import PythonCompanion, PythonReader
from saga_mcp.tools.python_undo import PythonUndo, ToolAsUndo
from saga_mcp.tools.rules import Rules, WrittenRule
from saga_mcp.tools.running import describe
from saga_mcp.tools.undo_plan import UndoPlan
from saga_tools.server import RegisteredInvariant, registered

if TYPE_CHECKING:
    from saga_mcp.tools.upstream.served import ServedUpstreams


_NONE: Mapping[str, Tool] = MappingProxyType({})


class ConfiguredCatalogue:
    """What the config names, and what its upstreams turn out to have.

    Args:
        tools: Governed tools, in the order in which agents see them.
        hidden: Names in the config of those that agents do not see.
        undoers: What undo parts call, by the name that is stored.
        result_readers: Names of those that may look at the step's result, whatever their arguments are.
        more_undoers: Asked where a name is not among those.
        more_offered: Tools that came to light while serving, after the others; a name that is taken stays taken.
        readers: What captures, guards and the like call, by name in the config.
        rules: What is looked at after each step; None: nothing.
    """

    def __init__(  # noqa: PLR0913 - every one but two with a default
        self,
        tools: Iterable[Tool],
        *,
        hidden: frozenset[str] = frozenset(),
        undoers: Mapping[str, Undoer],
        result_readers: frozenset[str] = frozenset(),
        more_undoers: Callable[[str], Undoer | None] = lambda _: None,
        more_offered: Callable[[], Mapping[str, Tool]] = lambda: _NONE,
        readers: Mapping[str, Reader] = MappingProxyType({}),
        rules: Rules | None = None,
    ) -> None:
        self._tools = {tool.pair.tool: tool for tool in tools}
        self._offered = MappingProxyType(
            {tool.offered: tool for name, tool in self._tools.items() if name not in hidden}
        )
        self._undoers = dict(undoers)
        self._result_readers = result_readers
        self._more_undoers = more_undoers
        self._more_offered = more_offered
        self._readers = dict(readers)
        self._rules = rules or Rules(())
        self._plans: dict[str, UndoPlan] = {}
        self._freezer = Freezer(self)

    @property
    def offered(self) -> Mapping[str, Tool]:
        """Governed tools by the name agents see, in a fixed order."""
        more = self._more_offered()
        taken = self._offered
        return {**taken, **{name: tool for name, tool in more.items() if name not in taken}} if more else taken

    def tool(self, name: str) -> Tool | None:
        """A governed tool by its name in the config."""
        return self._tools.get(name)

    def undoer(self, name: str) -> Undoer | None:
        """What an undo part of that name calls; None: not available here."""
        return self._undoers.get(name) or self._more_undoers(name)

    def reader(self, name: str) -> Reader | None:
        """What a capture, guard and the like of that name calls; None: not available here, or not read-only."""
        return self._readers.get(name)

    def frozen(self, pair: Pair) -> Pair:
        """What is stored of a pair at an intent: with it, what the tools that it calls are now."""
        return self._freezer.frozen(pair)

    def bind(self, pair: Pair, step: StepFacts) -> BoundUndo:
        """Build the undo of a step from its frozen pair, or say why it cannot be built."""
        try:
            return self._plan(pair).bind(step, self._result_readers)
        except Exception as error:  # noqa: BLE001 - the step has happened: whatever is wrong here is for a person to see
            return BoundUndo(parts=None, build_error=describe(error))

    def unbuildable(self, pair: Pair, step: StepFacts) -> str:
        """Why a call's undo could never be built, as far as its arguments and its capture tell; empty: it could."""
        try:
            return self._plan(pair).unbuildable(step)
        except Exception as error:  # noqa: BLE001 - nothing has been sent, and nothing will be
            return describe(error)

    @property
    def invariants(self) -> tuple[str, ...]:
        """Names of the rules over the results."""
        return self._rules.names

    async def violations(self, judged: Judged) -> tuple[str, ...]:
        """Names of the invariants that do not hold; over more than 256 kB of results none does (S9.3)."""
        return await self._rules.violations(judged)

    def _plan(self, pair: Pair) -> UndoPlan:
        name = pair.hash
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = UndoPlan.of(pair)
        return plan


def catalogue_of(
    declared: Iterable[DeclaredRegistry],
    registries: Mapping[str, PythonRegistry],
    upstreams: ServedUpstreams | None = None,
    written_rules: Iterable[WrittenRule] = (),
) -> ConfiguredCatalogue:
    """Return the catalogue of the Python registries and the upstreams of a config.

    Args:
        declared: What the config or the authors declared, in order.
        registries: The same, as they are served, by name.
        upstreams: Other servers, whose tools come after these.
        written_rules: Rules of the config.
    """
    tools: list[Tool] = []
    hidden: set[str] = set()
    undoers: dict[str, Undoer] = {}
    result_readers: set[str] = set()
    readers: dict[str, Reader] = {}
    invariants: list[RegisteredInvariant] = []
    for each in declared:
        registry, source = registries[each.name], registered(each.source)
        for tool in each.tools:
            if tool.governed:
                tools.append(PythonTool.of(registry, tool))
            if not tool.offered:
                hidden.add(tool.name)
            if tool.pair.kind is Kind.READ_ONLY:
                readers[tool.name] = PythonReader(registry=registry, declared=tool)
            undoers[tool.name] = ToolAsUndo(registry=registry, declared=tool)
        for forward in source.tools.values():
            for companion in filter(None, (forward.capture, forward.guard)):
                readers[f"{each.name}.{companion.name}"] = PythonCompanion(
                    registry=registry, tool=f"{each.name}.{forward.name}", registered=companion
                )
        # After the tools: where a tool and an undo share a name, the undo is what pairs from code mean by it.
        for name, undo in source.callables.items():
            stored = f"{each.name}.{name}"
            undoers[stored] = PythonUndo(registry=registry, registered=undo)
            if undo.undo_parameter is not None:
                result_readers.add(stored)
        invariants.extend(source.invariants)
    rules = Rules(invariants, written_rules)
    if upstreams is None:
        return ConfiguredCatalogue(
            tools,
            hidden=frozenset(hidden),
            undoers=undoers,
            result_readers=frozenset(result_readers),
            readers=readers,
            rules=rules,
        )
    return ConfiguredCatalogue(
        [*tools, *upstreams.tools],
        hidden=frozenset(hidden) | upstreams.hidden,
        undoers=undoers,
        result_readers=frozenset(result_readers),
        more_undoers=upstreams.undoer,
        more_offered=upstreams.trusted,
        readers={**readers, **upstreams.readers},
        rules=rules,
    )
