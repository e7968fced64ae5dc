"""`Harness`: the real engine on a temporary log, with a user's tools, and failures where a test wants them."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from saga_mcp.app import load
from saga_mcp.config import LoadedConfig
from saga_mcp.domain.values import OnError, OnUndoFailure
from saga_mcp.engine.port import EngineSettings
from saga_mcp.log.place import FilePlace
from saga_mcp.testing.errors import FaultUnused
from saga_mcp.testing.faults import Faults, FaultyCatalogue, UndoWhen, When
from saga_mcp.testing.saga import HarnessSaga, Known
from saga_mcp.testing.servers import Servers
from saga_mcp.tools.declared import DeclaredRegistry, declare
from saga_mcp.tools.failing import Often
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import Catalogue
from saga_tools import ToolRegistry

_REALM = "harness"
_REGISTRY = "tools"
_SETTLE_S = 0.05
"""After so many seconds a probe that finds nothing is believed; a test's world does not lag behind."""
_PROBE_FOR_S = 0.3
_REPLY_WITHIN_S = 10.0


class Harness:
    """Runs a user's tools under the real engine: `async with Harness(registry) as h:`.

    Back-offs take no time, and a probe is believed at once. Everything else is as it is served: intents before effects,
    undo in reverse order, attention items, recovery. Tools act on whatever they act on: give them a world of the test's
    own.

    Args:
        tools: A registry, or the path of a `saga.toml`.
        on_error: As in a config, and in place of what the config says.
        on_undo_failure: The same.
        database: File of the saga log; default: one that is deleted with the harness.
        timeout_s: How long each call and each undo is waited for, in seconds, in place of what its pair says, so that
            one that hangs takes a test no longer. A call that hangs is given up after twice that, an undo after ten
            times that.

    Raises:
        PairError: Something is wrong with the registry.
        ConfigInvalid: Something is wrong with the config.
    """

    def __init__(
        self,
        tools: ToolRegistry | Path | str,
        *,
        on_error: Literal["abort", "hold"] | None = None,
        on_undo_failure: Literal["halt", "continue"] | None = None,
        database: Path | None = None,
        timeout_s: float | None = None,
    ) -> None:
        loaded = _of_registry(tools) if isinstance(tools, ToolRegistry) else load(Path(tools))
        settings = loaded.settings
        self._loaded = replace(
            loaded,
            settings=replace(
                settings,
                on_error=OnError(on_error or settings.on_error),
                on_undo_failure=OnUndoFailure(on_undo_failure or settings.on_undo_failure),
            ),
        )
        self._database = database
        self._timeout_s = timeout_s
        self._faults = Faults(kill=lambda: self._servers.kill())  # noqa: PLW0108 - there are no servers yet
        self._catalogue: FaultyCatalogue
        self._servers: Servers
        self._sagas: list[Known] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        database = self._database
        if database is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="saga-mcp-test-"))
            database = Path(folder) / "saga.db"
        self._servers = Servers(_hastened(self._loaded, database, self._timeout_s), self._around)
        try:
            await self._servers.start()
        except BaseException:
            await self._stack.aclose()
            raise
        self._stack.push_async_callback(self._servers.close)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        if error is not None:
            for known in self._sagas:
                self._tell(known, error)
        elif self._faults.unused:
            raise FaultUnused(f"these failures never happened: {'; '.join(self._faults.unused)}")

    def _tell(self, known: Known, error: BaseException) -> None:
        if known.id:
            saga = HarnessSaga(self._servers, "", known)
            error.add_note(f"\n{known.id}  {saga.summary}\n{saga.timeline}")

    def _around(self, catalogue: Catalogue) -> Catalogue:
        self._catalogue = FaultyCatalogue(catalogue, self._faults)
        return self._catalogue

    def saga(self, *, agent: str = "agent", id: str = "") -> HarnessSaga:  # noqa: A002 - agents know it as the id
        """Return a saga for one agent to work on.

        Args:
            agent: Who works on it; each name is a conversation of its own.
            id: The id of a saga that exists, to join it; default: a new one.
        """
        known = next((known for known in self._sagas if id and known.id == id), None)
        if known is None:
            if id:
                raise ValueError(f"this harness has no saga {id}")
            known = Known()
            self._sagas.append(known)
        return HarnessSaga(self._servers, agent, known)

    def fail(
        self,
        tool: str,
        *,
        when: When = "before",
        times: int = 1,
        rate: float | None = None,
        error: Exception | None = None,
    ) -> None:
        """Let the next calls of a tool fail, or some of all its calls.

        Args:
            tool: Its name, as agents see it.
            when: `before`: it raises and has done nothing. `after`: it has done its work, and raises. `lost`: it has
                done its work, and what would bring its answer breaks. `hang`: it has done its work, and no answer
                comes, until its time limits are over. `crash`: it has done its work, and the server dies; the next
                server starts at once.
            times: How many calls.
            rate: Instead of `times`: how likely it is at each call, above 0 and up to 1, until the harness ends.
            error: What it raises `before` or `after`, such as `NoEffect("sold out")`; default: an `InjectedFault`.

        Raises:
            ValueError: There is no such tool, or no such rate.
        """
        self._faults.plan(self._catalogue.forward_named(tool), when, _often(times, rate), error)

    def fail_undo(
        self,
        tool: str,
        *,
        when: UndoWhen = "before",
        times: int = 1,
        rate: float | None = None,
        error: Exception | None = None,
    ) -> None:
        """Let the next attempts of an undo fail, or some of all.

        Args:
            tool: The tool whose undo is to fail; or the name of an undo, or of a part that `call.on_undo` names.
            when: As for `fail`: all but `before` show whether the undo may run twice.
            times: How many attempts.
            rate: As for `fail`.
            error: What it raises; default: an `InjectedFault`.

        Raises:
            ValueError: There is no such tool or undo, or no such rate.
        """
        self._faults.plan(self._catalogue.undo_named(tool), when, _often(times, rate), error)

    async def crash(self) -> None:
        """Kill the server between two calls; return when the next one runs."""
        self._servers.kill()
        await self._servers.ask(_nothing)


async def _nothing(_app: object) -> None:
    """Only wait for the server."""


def _often(times: int, rate: float | None) -> Often:
    if rate is not None and not 0 < rate <= 1:
        raise ValueError(f"{rate} is no rate: it has to be above 0 and up to 1")
    return Often(times, rate)


def _of_registry(registry: ToolRegistry) -> LoadedConfig:
    return LoadedConfig(
        path=Path("saga.toml"),
        settings=EngineSettings(realm=_REALM),
        database=FilePlace(Path()),  # `_hastened` puts the real one in its place
        database_is_default=False,
        realm_is_default=False,
        upstreams=(),
        invariants=(),
        registries=(declare(_REGISTRY, registry),),
        warnings=(),
    )


def _hastened(loaded: LoadedConfig, database: Path, timeout_s: float | None) -> LoadedConfig:
    """The same on another log, with waits that suit a test."""
    settings = replace(
        loaded.settings, probe_for_s=_PROBE_FOR_S, reply_within_s=_REPLY_WITHIN_S, recovery_every_s=_SETTLE_S
    )
    registries = tuple(_soon(registry, timeout_s) for registry in loaded.registries)
    return replace(
        loaded,
        settings=settings,
        database=FilePlace(database),
        database_is_default=False,
        registries=registries,
        alerts=None,
    )


def _soon(registry: DeclaredRegistry, timeout_s: float | None) -> DeclaredRegistry:
    """The same tools with waits that suit a test."""
    tools = (replace(tool, pair=_impatient(tool.pair, timeout_s)) for tool in registry.tools)
    return replace(registry, tools=tuple(tools))


def _impatient(pair: Pair, timeout_s: float | None) -> Pair:
    pair = replace(pair, settle_s=min(pair.settle_s, _SETTLE_S))
    if timeout_s is None:
        return pair
    undo = tuple(replace(entry, timeout_s=timeout_s) for entry in pair.undo)
    return replace(pair, timeout_s=timeout_s, hard_deadline_s=2 * timeout_s, undo=undo)
