"""An engine over LEDGER in this process, as the server puts it together, on a real log in a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from tests.world import ledger
from tests.world.clock import NotingClock

from saga_mcp.domain.attention import Item, items, reported_state
from saga_mcp.domain.state import Saga
from saga_mcp.engine.alerting import AlertSender
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.drivers.local import LocalDriver
from saga_mcp.engine.engine import Engine
from saga_mcp.engine.port import Caller, CallReply, EngineSettings
from saga_mcp.engine.workshop import DriverFactory
from saga_mcp.log.port import SagaLog
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql.log import claim_owner
from saga_mcp.tools.catalogue import ConfiguredCatalogue, catalogue_of
from saga_mcp.tools.declared import DeclaredRegistry, declare
from saga_mcp.tools.python import PythonRegistry, PythonThreads
from saga_tools import ToolRegistry

BOUND_S = 10.0
SETTINGS = EngineSettings(realm="ledger", recovery_every_s=0.05, probe_for_s=0.3, reply_within_s=5.0)
ME = Caller()

Wrap = Callable[[SagaLog], SagaLog]

usual_driver: DriverFactory = LocalDriver
"""What drives where a test names no driver: other tests run the same over another one."""


@dataclass(frozen=True)
class Server:
    """One process of the product, as far as the engine goes."""

    engine: Engine
    log: SagaLog
    threads: PythonThreads
    catalogue: ConfiguredCatalogue
    owner: str

    async def call(self, tool: str, saga_id: str | None = None, **arguments: Any) -> CallReply:  # noqa: ANN401 - JSON
        with anyio.fail_after(BOUND_S):
            return await self.engine.call(tool, arguments, saga_id=saga_id, caller=ME)

    async def begin(self) -> str:
        return (await self.engine.begin(ME)).id

    async def abort(self, saga_id: str) -> Saga:
        with anyio.fail_after(BOUND_S):
            return await self.engine.abort(saga_id, cause="agent")

    async def commit(self, saga_id: str, *, accept_failed: tuple[int, ...] = ()) -> Saga:
        with anyio.fail_after(BOUND_S):
            return await self.engine.commit(saga_id, by="agent", accept_failed=accept_failed)

    async def rest(self, saga_id: str) -> Saga:
        with anyio.fail_after(BOUND_S):
            return await self.engine.rest(saga_id)

    async def state(self, saga_id: str) -> str:
        return reported_state(await self.engine.saga(saga_id))

    async def items(self, saga_id: str) -> tuple[Item, ...]:
        return items(await self.engine.saga(saga_id))

    async def history(self, saga_id: str) -> list[str]:
        """The saga's events by name."""
        return [type(record.event).__name__ for record in await self.log.history(saga_id)]

    async def until(self, saga_id: str, holds: Callable[[Saga], bool]) -> Saga:
        """The state as soon as `holds` says so of it."""
        seen = 0
        with anyio.fail_after(BOUND_S):
            while True:
                seen = await self.log.wait_for_change(seen)
                saga = await self.log.load(saga_id)
                if holds(saga):
                    return saga


def settles_at_once(declared: DeclaredRegistry) -> DeclaredRegistry:
    """What a probe does not find a moment after the end of a call is absent."""
    return replace(
        declared, tools=tuple(replace(tool, pair=replace(tool.pair, settle_s=0.05)) for tool in declared.tools)
    )


async def eventually(holds: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Return once something outside the log holds; it is looked at again and again, for a bounded time."""
    with anyio.fail_after(BOUND_S):
        while True:
            now = holds()
            if now if isinstance(now, bool) else await now:
                return
            await anyio.sleep(0.005)


def same(log: SagaLog) -> SagaLog:
    return log


@asynccontextmanager
async def served(  # noqa: PLR0913 - all but one with a default
    database: Path,
    *,
    settings: EngineSettings = SETTINGS,
    clock: Clock | None = None,
    wrap: Wrap = same,
    adjust: Callable[[DeclaredRegistry], DeclaredRegistry] | None = None,
    tools: ToolRegistry = ledger.registry,
    sender: AlertSender | None = None,
    driver: DriverFactory | None = None,
    threads: PythonThreads | None = None,
    **changed: Any,  # noqa: ANN401 - the settings, which the dataclass checks
) -> AsyncGenerator[Server]:
    """Serve LEDGER, or other tools, until the block ends; then the process is gone as after a kill: nothing is drained.

    Args:
        database: file of the saga log.
        settings: the engine's.
        clock: default: the machine's, with back-offs that take no time.
        wrap: puts another log around the real one.
        adjust: changes what the registry declares, as a config would.
        tools: what is served.
        sender: where alerts go; default: none are kept.
        driver: makes what drives sagas to rest; default: `usual_driver`.
        threads: where plain functions run.
        changed: single settings to change.
    """
    settings = replace(settings, **changed)
    declared = declare("ledger", tools, on_error=settings.on_error)
    if adjust is not None:
        declared = adjust(declared)
    threads = threads or PythonThreads()
    registry = PythonRegistry(declared, threads)
    async with SqlSagaLog.open(database, poll_s=0.02, outbox=sender is not None) as opened, registry.opened():
        log = wrap(opened)
        with claim_owner(database) as owners:
            catalogue = catalogue_of([declared], {"ledger": registry})
            async with Engine.running(
                settings,
                log,
                owners,
                catalogue,
                driver or usual_driver,
                clock=clock or NotingClock(),
                alerts=None if sender is None else (opened.outbox, sender),
            ) as engine:
                try:
                    yield Server(engine=engine, log=log, threads=threads, catalogue=catalogue, owner=owners.me)
                finally:
                    threads.let_go()
