"""The composition root, with `app_driver` and `app_http`: nothing else names adapters.

Whoever serves, and every command, gets the same parts from here; what they do with them is theirs.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import structlog

from saga_mcp.app_driver import driver_of
from saga_mcp.config import LoadedConfig, Receiver, Survey, find_config, load_config, survey_config
from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.engine.clock import Clock, SystemClock
from saga_mcp.engine.engine import Engine
from saga_mcp.engine.port import EngineSettings
from saga_mcp.engine.wiping import wiping
from saga_mcp.log.inspection import LogInspection, ServerInspection
from saga_mcp.log.keeping import LogKeeping
from saga_mcp.log.outbox import OutboxCounts
from saga_mcp.log.owners import LivingOwner
from saga_mcp.log.place import FilePlace, is_absent
from saga_mcp.log.port import Owners, SagaLog
from saga_mcp.log.sealing import LogKeyMissing
from saga_mcp.log.sql.files import copy_database
from saga_mcp.log.sql.opened import is_there, living_owners, look_at, open_owned, open_sql_log
from saga_mcp.log.sql.trouble import LogFull, LogReadOnly
from saga_mcp.tools.catalogue import catalogue_of
from saga_mcp.tools.port import Catalogue
from saga_mcp.tools.python import PythonRegistry, PythonThreads

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from saga_mcp.edge.webhook import Webhook
    from saga_mcp.tools.upstream.fit import Misfit
    from saga_mcp.tools.upstream.served import ServedUpstreams


_log = structlog.get_logger(__name__)

_KEYS_WITHIN_S = 1.0
"""How long a start waits for a log that is locked, or being upgraded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The open parts of one process."""

    settings: EngineSettings
    engine: Engine
    log: SagaLog
    owners: Owners
    catalogue: Catalogue


def load(config: Path | None = None, *, environ: Mapping[str, str] | None = None, code: bool = True) -> LoadedConfig:
    """Find and read the config; nothing is opened.

    Args:
        config: The file, if one was named.
        environ: Instead of this process's environment.
        code: See `load_config`.

    Raises:
        ConfigMissing: There is no file.
        ConfigInvalid: Every problem in it at once.
    """
    env = os.environ if environ is None else environ
    return load_config(find_config(config, env, Path.cwd()), env, code=code)


def survey(config: Path | None = None) -> Survey:
    """Find and read the config as `load` does, for whoever goes on where it has problems.

    Raises:
        ConfigMissing: There is no file.
        ConfigInvalid: It cannot be read at all.
    """
    return survey_config(find_config(config, os.environ, Path.cwd()), os.environ)


def inspect_log(loaded: LoadedConfig) -> LogInspection | ServerInspection:
    """Look at the saga log that a config names, without using it."""
    return look_at(loaded.database)


def log_exists(loaded: LoadedConfig) -> bool:
    """Whether there is a saga log; none is made by looking.

    Raises:
        LogUnavailable: that has to be asked of a server, which cannot be used.
    """
    return is_there(loaded.database)


def living_processes(loaded: LoadedConfig) -> list[LivingOwner]:
    """Every other process that uses the saga log now.

    Raises:
        LogUnavailable: that has to be asked of a server, which does not answer.
    """
    return living_owners(loaded.database)


@contextlib.asynccontextmanager
async def open_app(  # noqa: PLR0913 - all but one with a default
    loaded: LoadedConfig,
    *,
    drive: bool = True,
    ends_soon: bool = False,
    works: bool = False,
    clock: Clock | None = None,
    around: Callable[[Catalogue], Catalogue] | None = None,
    tools_changed: Callable[[], Awaitable[None]] | None = None,
    up_within_s: float = 0.0,
) -> AsyncGenerator[App]:
    """Open the log, the tools and the engine, until the block ends.

    The block drains the engine itself, in the time it has; afterwards nothing is waited for, tool threads least of all.

    Args:
        loaded: What `load` returned.
        drive: Run undos and retries of this realm's sagas here. Without, only append and read: no lifespan is entered.
        ends_soon: Drive, but do not pass for a server: nobody may leave work to a process that is about to end.
        works: Take the turns that a distributed driver gives out, as a worker does.
        clock: Time and jitter; default: the machine's.
        around: Puts another catalogue around the real one, as tests do that make tools fail.
        tools_changed: Called when tools are not what they were listed as.
        up_within_s: How long the upstreams are waited for, in seconds; default: not at all.

    Raises:
        LogUnavailable: The folder of the database cannot be written, or a key that the log needs is not here.
        LifespanFailed: What a registry's tools share did not open.
        DriverUnavailable: The driver that the config names is not installed.
    """
    driver = driver_of(loaded, works=works, ends_soon=ends_soon or not drive)
    threads = PythonThreads()
    registries = {each.name: PythonRegistry(each, threads) for each in loaded.registries}
    upstreams = _upstreams(loaded)
    catalogue: Catalogue = catalogue_of(loaded.registries, registries, upstreams, loaded.invariants)
    if around is not None:
        catalogue = around(catalogue)
    raised: Exception | None = None
    async with contextlib.AsyncExitStack() as stack:
        log, owners = await stack.enter_async_context(
            open_owned(
                loaded.database,
                loaded.keyring,
                make_parent=loaded.database_is_default,
                outbox=loaded.alerts is not None,
                serves=loaded.settings.realm if drive and not ends_soon else "",
            )
        )
        if drive and not is_absent(loaded.database):
            await _require_keys(log, loaded.settings.realm)
        sender = await stack.enter_async_context(_sender(loaded.alerts)) if drive and loaded.alerts else None
        if drive:
            for registry in registries.values():
                await stack.enter_async_context(registry.opened())
            if upstreams is not None:
                await stack.enter_async_context(upstreams.connected(tools_changed, owners.mark))
                if up_within_s:
                    await upstreams.settled(up_within_s)
        engine = await stack.enter_async_context(
            Engine.running(
                loaded.settings,
                log,
                owners,
                catalogue,
                driver,
                clock=clock,
                drive=drive,
                tells=drive and not ends_soon,
                alerts=None if sender is None else (log.outbox, sender),
            )
        )
        if loaded.wipe_values and drive and not ends_soon:
            await stack.enter_async_context(wiping(log, loaded.settings, clock or SystemClock()))
        stack.callback(threads.let_go)  # first of all on the way out, or a hung thread would hold the engine
        try:
            yield App(settings=loaded.settings, engine=engine, log=log, owners=owners, catalogue=catalogue)
        except Exception as error:  # noqa: BLE001 - raised again below: the engine's task group would wrap it in a group
            raised = error
    if raised is not None:
        raise raised


async def _require_keys(log: SagaLog, realm: str) -> None:
    """Start nothing where a key is missing: that needs another config. Any other trouble may pass while a server is up.

    Raises:
        LogKeyMissing: The log needs a key that is not here.
    """
    with anyio.move_on_after(_KEYS_WITHIN_S):
        try:
            await log.paused(realm)  # any read does
        except LogKeyMissing:
            raise
        except LogUnavailable as error:
            _log.warning("log_unavailable", reason=str(error))


@contextlib.asynccontextmanager
async def open_log(loaded: LoadedConfig) -> AsyncGenerator[SagaLog]:
    """Open the saga log for reading, until the block ends; nothing is written beside it, not even that we are here.

    SQLite reads nothing where it cannot write its index: what lies on a disk that is full or read-only is copied, and
    the copy is read.
    """
    async with contextlib.AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_sql_log(loaded.database, loaded.keyring))
        if isinstance(loaded.database, FilePlace):
            try:
                await log.sagas(loaded.settings.realm, limit=1)
            except (LogFull, LogReadOnly) as error:
                _log.warning("log_read_from_a_copy", reason=str(error))
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="saga-mcp-"))
                copied = FilePlace(copy_database(loaded.database.path, Path(folder)))
                log = await stack.enter_async_context(open_sql_log(copied, loaded.keyring))
        yield log


@contextlib.asynccontextmanager
async def open_keeping(loaded: LoadedConfig) -> AsyncGenerator[LogKeeping]:
    """Open the saga log for whoever keeps it in order, until the block ends."""
    async with open_sql_log(loaded.database, loaded.keyring) as log:
        yield log


@contextlib.asynccontextmanager
async def open_tools(loaded: LoadedConfig, *, up_within_s: float) -> AsyncGenerator[Catalogue]:
    """Open the tools alone, until the block ends: no log, no engine, nothing kept.

    Args:
        loaded: What `load` returned.
        up_within_s: How long the upstreams are waited for, in seconds; a tool of one that is not up then says so.

    Raises:
        LifespanFailed: What a registry's tools share did not open.
    """
    threads = PythonThreads()
    registries = {each.name: PythonRegistry(each, threads) for each in loaded.registries}
    raised: Exception | None = None
    async with contextlib.AsyncExitStack() as stack:
        upstreams = _upstreams(loaded, keep=False)
        for registry in registries.values():
            await stack.enter_async_context(registry.opened())
        if upstreams is not None:
            await stack.enter_async_context(upstreams.connected())
            await upstreams.settled(up_within_s)
        stack.callback(threads.let_go)
        try:
            yield catalogue_of(loaded.registries, registries, upstreams, loaded.invariants)
        except Exception as error:  # noqa: BLE001 - as in `open_app`
            raised = error
    if raised is not None:
        raise raised


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSeen:
    """How an upstream was when it was looked at."""

    name: str
    tools: frozenset[str] | None
    """The names of its tools; None: it did not come up."""
    reason: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that cannot be read, and why."""
    misfit: Misfit | None = None
    """Why its preset was not made for it."""


async def look_at_upstreams(loaded: LoadedConfig, *, within_s: float) -> tuple[UpstreamSeen, ...]:
    """Start every upstream, ask for its tools, and end it; no tool is called and nothing is kept."""
    upstreams = _upstreams(loaded, keep=False)
    if upstreams is None:
        return ()
    async with upstreams.connected():
        await upstreams.settled(within_s)
        return tuple(
            UpstreamSeen(
                name=each.name,
                tools=frozenset(each.tools) if each.state == "up" else None,
                reason=each.reason or f"no answer within {within_s:g} s",
                left_out=dict(each.left_out),
                misfit=each.misfit,
            )
            for each in upstreams.upstreams
        )


async def count_alerts(loaded: LoadedConfig) -> OutboxCounts:
    """Count what lies in the outbox of a log that is there.

    Raises:
        LogUnavailable: It cannot be read.
    """
    async with open_sql_log(loaded.database, loaded.keyring) as log:
        return await log.outbox.counts(loaded.settings.realm)


async def reach_receiver(receiver: Receiver) -> str:
    """Ask whether the receiver of alerts is there; nothing is told. Empty, or why not."""
    async with _sender(receiver) as sender:
        return await sender.reach()


def _sender(receiver: Receiver) -> AbstractAsyncContextManager[Webhook]:
    from saga_mcp.edge.webhook import Webhook  # noqa: PLC0415 - a start without alerts does not pay for an HTTP client

    return Webhook.open(receiver.url, receiver.secret)


def _upstreams(loaded: LoadedConfig, *, keep: bool = True) -> ServedUpstreams | None:
    if not loaded.upstreams:
        return None
    # The SDK's client: a start without upstreams does not pay for it.
    from saga_mcp.tools.upstream.served import ServedUpstreams  # noqa: PLC0415 - see above

    beside = loaded.database.beside
    folder = beside.with_name(f"{beside.name}-upstreams") if keep else None
    return ServedUpstreams(loaded.upstreams, folder)
