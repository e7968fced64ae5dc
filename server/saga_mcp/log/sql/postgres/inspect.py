"""What can be found out about a saga log on a PostgreSQL server without using it. Changes nothing."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from sqlalchemy import Connection, text

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.log.inspection import ServerInspection
from saga_mcp.log.owners import LivingOwner
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.sql.postgres import living
from saga_mcp.log.sql.postgres.connecting import READS, Server, answering, driver_connection
from saga_mcp.log.sql.postgres.session import Session
from saga_mcp.log.sql.postgres.task import discard
from saga_mcp.log.sql.postgres.trouble import translate
from saga_mcp.log.sql.tables import EPOCH
from saga_mcp.log.sql.worker import Busy, T, Work

_LOOKS_WITHIN_S = 30.0
_LOOKED = (
    "SELECT current_setting('server_version'), pg_database_size(current_database()), pg_is_in_recovery(), "
    "to_regclass('saga_log_meta') IS NOT NULL, current_setting('fsync'), current_setting('full_page_writes'), "
    "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
    "current_setting('max_connections')::int"
)
_IN_CLEAR = "SELECT count(DISTINCT saga_id) FROM saga_event WHERE payload IS NOT NULL"


async def inspect(place: ServerPlace) -> ServerInspection:
    """Look at the saga log at `place`."""
    try:
        await _sees_session(place)
        return await _over_connection(place, _look)
    except LogUnavailable as error:
        return ServerInspection(trouble=str(error), expected_epoch=EPOCH)


async def living_owners(place: ServerPlace) -> list[LivingOwner]:
    """Every other process that shows that it lives there; none where there is no log yet.

    Raises:
        LogUnavailable: the server cannot be asked.
    """
    here = socket.gethostname()
    found = await _over_connection(place, _owners)
    others = [owner for owner in found if (owner.pid, owner.host) != (os.getpid(), here)]
    return [replace(owner, host="") if owner.host == here else owner for owner in others]


async def _sees_session(place: ServerPlace) -> None:
    """Make sure that a connection keeps its session.

    Raises:
        LogUnavailable: it does not, or there is none.
    """
    server = Server(place.url)
    raw = None
    try:
        raw = await server.connect_raw()
        with answering(raw, _LOOKS_WITHIN_S):
            await Session.refuse_pooler(server, raw)
    except Exception as error:
        raise _named(error, place) from error
    finally:
        if raw is not None:
            raw.terminate()


async def _over_connection(place: ServerPlace, work: Work[T]) -> T:
    connection = None
    try:
        connection = await Server(place.url).connect(READS)
        with answering(await driver_connection(connection), _LOOKS_WITHIN_S):
            return await connection.run_sync(work)
    except Exception as error:
        raise _named(error, place) from error
    finally:
        if connection is not None:
            await discard(connection)


def _named(error: Exception, place: ServerPlace) -> Exception:
    failure = translate(error, place.name)
    return failure.given_up(0.0) if isinstance(failure, Busy) else failure


def _look(connection: Connection) -> ServerInspection:
    with connection.begin():
        version, size, standby, there, fsync, pages, used, most = connection.execute(text(_LOOKED)).one()
        seen = ServerInspection(
            version=version,
            size_bytes=size,
            in_recovery=standby,
            undurable=tuple(name for name, is_on in (("fsync", fsync), ("full_page_writes", pages)) if is_on == "off"),
            connections=used,
            most_connections=most,
            expected_epoch=EPOCH,
        )
        if not there:
            return seen
        seen = replace(seen, epoch=connection.execute(text("SELECT epoch FROM saga_log_meta")).scalar_one())
        if seen.epoch != EPOCH:
            return seen
        keys = connection.execute(text("SELECT id FROM saga_log_key ORDER BY id")).scalars()
        in_clear = connection.execute(text(_IN_CLEAR)).scalar_one()
        return replace(seen, keys=tuple(keys), in_clear=in_clear)


def _owners(connection: Connection) -> list[LivingOwner]:
    with connection.begin():
        there = connection.execute(text("SELECT to_regclass('saga_owner') IS NOT NULL")).scalar_one()
        return living.owners(connection) if there else []
