"""Which schema a PostgreSQL database has, and bringing it to today's (SEMANTICS.md S10.3).

However many processes start together, one creates or migrates while the others wait for its lock. There is no back-up
by us before a migration, as there is of a file: that is for whoever runs the server, and docs/postgresql.md says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from saga_mcp.log.owners import LivingOwner
from saga_mcp.log.sql.postgres import living
from saga_mcp.log.sql.tables import EPOCH, log_key, log_meta
from saga_mcp.log.sql.trouble import NOTHING, LogDamaged, LogInUseByOlder, LogNewer, LogTroubled

MIGRATION_LOCK: Final = 0x53414741_00000001
"""Advisory lock of whoever creates or migrates the schema."""
OLDEST_SERVER: Final = 130000
"""PostgreSQL 13."""


def is_current(connection: Connection, name: str) -> bool:
    """Whether the schema is the one this code writes; False: it is older, or there is none yet.

    Raises:
        LogNewer: it is of a newer version.
        LogDamaged: the database holds tables of another program by our names.
        LogTroubled: the server is too old.
    """
    with connection.begin():
        return _epoch(connection, name) == EPOCH


def make_current(connection: Connection, name: str) -> None:
    """Create or migrate the schema, once, however many processes start together.

    Args:
        connection: one whose statements each see what was committed before.
        name: the database, as people know it.

    Raises:
        LogInUseByOlder: a process of the old schema still runs.
    """
    with connection.begin():
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
        epoch = _epoch(connection, name)
        if epoch == EPOCH:
            return  # another process was faster
        if epoch is not None:
            # No batch that has read the old number is still under way, and none reads it until this is over.
            connection.exec_driver_sql("LOCK TABLE saga_log_meta IN ACCESS EXCLUSIVE MODE")
            _require_no_older_process(living.owners(connection), name)
        from saga_mcp.log.sql.migrations import upgrade  # noqa: PLC0415 - imports Alembic

        upgrade(connection)
        if _epoch(connection, name) != EPOCH:
            raise LogTroubled(
                f"the upgrade of the saga log {name} did not reach schema {EPOCH}; it was undone, {NOTHING}"
            )


def keys_used(connection: Connection) -> list[str]:
    """Names of the keys that something in a current log is encrypted with."""
    with connection.begin():
        return [*connection.execute(select(log_key.c.id)).scalars()]


def _epoch(connection: Connection, name: str) -> int | None:
    """The epoch of the schema; None: there is none."""
    version, found = connection.exec_driver_sql(
        "SELECT current_setting('server_version_num')::int, to_regclass('saga_log_meta') IS NOT NULL"
    ).one()
    if version < OLDEST_SERVER:
        raise LogTroubled(
            f"saga log {name}: its server is PostgreSQL {version // 10000}, and saga-mcp needs 13 or newer; {NOTHING}."
        )
    if not found:
        return None
    try:
        epoch: int | None = connection.execute(select(log_meta.c.epoch)).scalar()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == "42703":
            raise _damaged(name, "its table saga_log_meta is of another program") from error
        raise
    if epoch is None:
        raise _damaged(name, "its schema number is missing")
    if epoch > EPOCH:
        raise LogNewer(
            f"saga log {name} was written by a newer saga-mcp (schema {epoch}, this one knows {EPOCH}); {NOTHING}. "
            "Restart saga-mcp if it was upgraded meanwhile; otherwise install that version again."
        )
    return epoch


def _damaged(name: str, why: str) -> LogDamaged:
    return LogDamaged(
        f"saga log {name} is damaged ({why}); {NOTHING}, and it was left as it is. It is not recreated, because the "
        "undos of open sagas are in it: restore a backup, or let [saga] database name another database."
    )


def _require_no_older_process(alive: Iterable[LivingOwner], name: str) -> None:
    older = [owner for owner in alive if owner.epoch < EPOCH]
    if older:
        pids = ", ".join(owner.where for owner in older)
        raise LogInUseByOlder(
            f"close the older saga-mcp (pid {pids}): the saga log {name} has to be upgraded first; {NOTHING}"
        )
