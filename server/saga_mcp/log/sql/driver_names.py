"""The rows that name the realms' drivers, and their check in the transaction that stores a claim (S12.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, insert, select, update

from saga_mcp.domain.errors import DrivenOtherwise
from saga_mcp.domain.events import Event, SagaClaimed
from saga_mcp.log.sql.pauses import Alone
from saga_mcp.log.sql.tables import driver, log_meta


class DriverNames:
    """The names of the realms' drivers as the batches of one connection know them."""

    def __init__(self) -> None:
        self._at: int = -1
        self._known: Mapping[str, str] = {}

    def refresh(self, connection: Connection, change: int) -> None:
        """Read them again if something changed since; see `Pauses.refresh`, whose number this shares."""
        if change != self._at:
            self._known = {row.realm: row.name for row in connection.execute(select(driver))}
            self._at = change

    def check(self, realm: str, events: Sequence[Event], name: str) -> None:
        """Look whether a driver claims a saga of a realm that another one drives.

        Args:
            realm: whose saga it is.
            events: what is to be stored.
            name: of the driver that this is decided for; empty: of none.

        Raises:
            DrivenOtherwise: it does.
        """
        known = self._known.get(realm, "")
        if name and known not in {"", name} and any(isinstance(event, SagaClaimed) for event in events):
            raise DrivenOtherwise(realm, known)


def named(connection: Connection, realm: str) -> str:
    """The name of the realm's driver; empty: none has been named yet."""
    with connection.begin():
        return _named(connection, realm)


def put(connection: Connection, alone: Alone, realm: str, was: str, name: str) -> str:
    """Name the realm's driver, if `was` still is the name; the name that holds then."""
    with connection.begin():
        alone(connection)
        now = _named(connection, realm)
        if now != was:
            return now
        here = driver.c.realm == realm
        connection.execute(update(log_meta).values(pauses=log_meta.c.pauses + 1))
        if connection.execute(update(driver).where(here).values(name=name)).rowcount == 0:
            connection.execute(insert(driver).values(realm=realm, name=name))
    return name


def _named(connection: Connection, realm: str) -> str:
    return connection.execute(select(driver.c.name).where(driver.c.realm == realm)).scalar() or ""
