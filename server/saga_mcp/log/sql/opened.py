"""A saga log as it is opened, wherever it lies: the adapters put together for the composition root."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.inspection import LogInspection, ServerInspection
from saga_mcp.log.owners import FileOwners, LivingOwner, directory_of, living
from saga_mcp.log.place import FilePlace, LogPlace, ServerPlace
from saga_mcp.log.port import Owners
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql.inspect import inspect
from saga_mcp.log.sql.log import SqlSagaLog, claim_owner

if TYPE_CHECKING:
    from saga_mcp.log.sql.postgres.database import PostgresDatabase


T = TypeVar("T")

_CLAIMED_WITHIN_S = 5.0
"""How long a start waits for a server; without one it goes on, and calls are refused until there is one."""


@asynccontextmanager
async def open_sql_log(
    place: LogPlace, keyring: Keyring, *, make_parent: bool = False, outbox: bool = False
) -> AsyncGenerator[SqlSagaLog]:
    """Serve the log at a place until the block ends; see `SqlSagaLog.over`.

    Args:
        place: where it is.
        keyring: what values are encrypted with.
        make_parent: create the folder of a file too; for the default location only.
        outbox: keep alerts until somebody has delivered them.
    """
    async with AsyncExitStack() as stack:
        match place:
            case FilePlace(path=path):
                opened = SqlSagaLog.open(path, keyring=keyring, make_parent=make_parent, outbox=outbox)
            case ServerPlace():
                database = _server(place, keyring)
                stack.push_async_callback(database.session.aclose)
                opened = SqlSagaLog.over(database, keyring=keyring, outbox=outbox)
        yield await stack.enter_async_context(opened)


@asynccontextmanager
async def open_owned(
    place: LogPlace, keyring: Keyring, *, make_parent: bool = False, outbox: bool = False, serves: str = ""
) -> AsyncGenerator[tuple[SqlSagaLog, Owners]]:
    """Serve the log as `open_sql_log` does, and prove meanwhile to other processes that this one lives.

    Args:
        place: see there.
        keyring: see there.
        make_parent: see there.
        outbox: see there.
        serves: realm whose sagas this process drives until it ends; commands look for it.

    Raises:
        LogUnavailable: the folder beside the log cannot be written.
    """
    async with AsyncExitStack() as stack:
        of_a_server = isinstance(place, ServerPlace)
        files = stack.enter_context(claim_owner(place.beside, make_parent=make_parent or of_a_server, serves=serves))
        if isinstance(place, ServerPlace):
            yield await stack.enter_async_context(_owned_on_server(place, files, keyring, outbox=outbox, serves=serves))
        else:
            opened = open_sql_log(place, keyring, make_parent=make_parent, outbox=outbox)
            yield await stack.enter_async_context(opened), files


@asynccontextmanager
async def _owned_on_server(
    place: ServerPlace, files: FileOwners, keyring: Keyring, *, outbox: bool, serves: str
) -> AsyncGenerator[tuple[SqlSagaLog, Owners]]:
    from saga_mcp.log.sql.postgres.owners import ServerOwners  # noqa: PLC0415 - see `_server`

    database = _server(place, keyring)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.session.aclose)  # after the last write
        log = await stack.enter_async_context(SqlSagaLog.over(database, keyring=keyring, outbox=outbox))
        owners = ServerOwners(files, place.beside, database.session, log.read, serves=serves)
        await database.session.up(_CLAIMED_WITHIN_S)
        yield log, owners


def look_at(place: LogPlace) -> LogInspection | ServerInspection:
    """Look at the log at a place, without using it."""
    if isinstance(place, FilePlace):
        return inspect(place.path)
    from saga_mcp.log.sql.postgres.inspect import inspect as inspect_server  # noqa: PLC0415 - see `_server`

    return _in_a_loop_of_its_own(inspect_server(place))


def is_there(place: LogPlace) -> bool:
    """Whether there is a log at a place.

    Raises:
        LogUnavailable: that has to be asked of a server, which cannot be used. Whoever opened a log there all the same
            would make one.
    """
    if isinstance(place, FilePlace):
        return place.path.exists()
    seen = look_at(place)
    if seen.damage:
        raise LogUnavailable(seen.damage)
    return seen.epoch is not None


def living_owners(place: LogPlace) -> list[LivingOwner]:
    """Every other process that uses the log at a place now.

    Raises:
        LogUnavailable: that has to be asked of a server, which does not answer.
    """
    folder = directory_of(place.beside)
    here = living(folder) if folder.is_dir() else []
    if isinstance(place, FilePlace):
        return here
    from saga_mcp.log.sql.postgres.inspect import living_owners as owners_there  # noqa: PLC0415 - see `_server`

    there = _in_a_loop_of_its_own(owners_there(place))
    known = {owner.id for owner in there}
    return [*there, *(owner for owner in here if owner.id not in known)]


def _in_a_loop_of_its_own(work: Coroutine[Any, Any, T]) -> T:
    # For callers that wait for nothing, some of them within a loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _server(place: ServerPlace, keyring: Keyring) -> PostgresDatabase:
    # Whoever has a file does not pay for the driver, which is in an extra.
    from saga_mcp.log.sql.postgres.database import PostgresDatabase  # noqa: PLC0415 - see above

    return PostgresDatabase(place, keyring)
