"""Who is alive, where several machines share a log (SEMANTICS.md S3.5, S10.4).

Each process holds an advisory lock over the one connection that lasts, and on its own machine a locked file too. The
lock shows all others that it lives, and is gone with the connection, however that ends; the file tells those of the
same machine whether it was the process that ended. So a loss is proved on the same machine, and assumed elsewhere.

A connection may end while its process lives: the network, a pooler, a restart of the server. So a lock that is free is
watched for a moment before anything follows from it, and longer where the server was started anew, or where the watcher
has lost its own connection too: what ends all connections at once tells nothing of one process. Its process takes the
lock again meanwhile, under the same id.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, bindparam, text

from saga_mcp.domain.living import Life
from saga_mcp.log.owners import FileOwners, LivingOwner, place_of
from saga_mcp.log.port import Claim
from saga_mcp.log.sql.postgres import living
from saga_mcp.log.sql.postgres.living import OwnerRow, lock_of
from saga_mcp.log.sql.postgres.session import Session
from saga_mcp.log.sql.tables import EPOCH
from saga_mcp.log.sql.worker import Work

T = TypeVar("T")

HOLDS_ON_S: Final = 1.5
"""How long a process goes on without its lock: less than others wait before they draw anything from that."""
FREE_FOR_S: Final = 3.0
ALL_LOST_FOR_S: Final = 15.0
LEASE_S: Final = 30.0
"""A process whose row has not moved for so long drives nothing (S10.5); it moves it every few seconds."""
_FORGOTTEN_S: Final = 7 * 86400.0
_STILL_FOR_S: Final = 600.0
"""How long a row of a process that was started before that shows no sign of life before it is cleared away."""
_CLOCKS_S: Final = 60.0
"""How far the clocks of machines may be apart."""
_SEEN_FOR_S: Final = 0.5
"""How long it is not asked again whether a living process lives."""

_NOTE: Final = (
    "INSERT INTO saga_owner (id, lock, place, host, pid, epoch, serves, started_at, server_started, beats) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, pg_postmaster_start_time()::text, 0) "
    "ON CONFLICT (id) DO UPDATE SET server_started = EXCLUDED.server_started, beats = saga_owner.beats + 1"
)
_OLD: Final = f"SELECT id, beats FROM saga_owner WHERE started_at < $1 AND lock NOT IN ({living.HELD})"  # noqa: S608 - our words
_FORGET: Final = (
    "DELETE FROM saga_owner WHERE (id, beats) IN (SELECT * FROM unnest($1::text[], $2::int[])) "  # noqa: S608 - our words
    f"AND lock NOT IN ({living.HELD})"
)
_LEAVE: Final = (
    "DELETE FROM saga_owner WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM saga WHERE open AND updated_at >= $2)"
)
"""A saga that is open and has changed since may name this process, whose row proves that it has ended (S3.5, S8.1)."""
_FREE: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND (classid::bigint << 32) | objid::bigint = $1 AND pid <> pg_backend_pid()"
)
"""A session of our own that the server still has: what is at its other end is not this process any more."""
_BEAT: Final = (
    "UPDATE saga_owner SET beats = beats + 1 WHERE id = $1 AND EXISTS (SELECT 1 FROM pg_locks "
    "WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND objsubid = 1 "
    "AND (classid::bigint << 32) | objid::bigint = $2)"
)
_SOME: Final = text(f"{living.OWNERS} WHERE id IN :ids").bindparams(bindparam("ids", expanding=True))


class Read(Protocol):
    """Runs something over a connection that reads."""

    async def __call__(self, work: Work[T], /) -> T:
        """Return what `work` returns."""
        ...


class ServerOwners:
    """The port's `Owners` for a log on a server."""

    def __init__(self, files: FileOwners, beside: Path, session: Session, read: Read, *, serves: str) -> None:
        self._files = files
        self._place = place_of(beside)
        self._session = session
        self._read = read
        self._serves = serves
        self._started_at = time.time()
        self._lost_at = -math.inf
        self._free_since: dict[str, tuple[int, float]] = {}
        """How far rows had moved whose locks are free, and since when that is known, by id."""
        self._old: list[tuple[str, int]] = []
        """Rows to be cleared away, if they have not moved when it is looked again."""
        self._old_at = -math.inf
        self._beats: dict[str, tuple[int, float]] = {}
        """How far others' rows have moved, and since when, by id."""
        self._seen: dict[str, float] = {}
        session.claim_with(self._take, self._beat, self._lost, self.leave)
        session.start()

    @property
    def me(self) -> str:
        """See the port's `Owners`."""
        return self._files.me

    @property
    def standing(self) -> Claim:
        """See the port's `Owners`."""
        if self._files.standing is Claim.LOST:
            return Claim.LOST
        held = self._session.is_up or time.monotonic() - self._lost_at < HOLDS_ON_S
        return Claim.HELD if held else Claim.AWAITED

    @property
    def trouble(self) -> str:
        """See the port's `Owners`."""
        if self._files.trouble:
            return self._files.trouble
        if self.standing is Claim.HELD:
            return ""
        if self._session.trouble is not None:
            return str(self._session.trouble)
        return (
            "This server is not connected to the saga log's database yet, so others cannot see that it lives. Nothing "
            "was stored and nothing was sent. Try again in a moment."
        )

    def mark(self) -> Path:
        """See the port's `Owners`."""
        return self._files.mark()

    async def others_serve(self, realm: str) -> bool:
        """See the port's `Owners`."""
        there = await self._read(_living)
        return any(each.serves == realm and each.id != self.me for each in there)

    async def look(self, owners: Collection[str]) -> Mapping[str, Life]:
        """See the port's `Owners`."""
        now = time.monotonic()
        known = {
            each: Life.LIVES
            for each in owners
            if each == self.me or now - self._seen.get(each, -math.inf) < _SEEN_FOR_S
        }
        asked = [each for each in owners if each not in known]
        if not asked:
            return known
        rows = {row.id: row for row in await self._read(lambda connection: _rows(connection, asked))}
        found = {each: self._life(each, rows.get(each)) for each in asked}
        self._seen.update({each: time.monotonic() for each, life in found.items() if life is Life.LIVES})
        return {**known, **found}

    def _life(self, owner: str, row: OwnerRow | None) -> Life:
        if self._files.alive(owner):
            return self._moving(owner, row)  # also one that has lost its lock: it is here, and takes it again
        if row is None:
            return Life.UNSEEN  # its row was cleared away long after its end
        if row.held:
            self._free_since.pop(owner, None)
            return self._moving(owner, row)
        if row.place == self._place:
            return Life.DEAD
        now = time.monotonic()
        beats, since = self._free_since.get(owner, (row.beats, now))
        if beats != row.beats:
            since = now  # it has had its lock meanwhile
        self._free_since[owner] = row.beats, since
        grace_s = FREE_FOR_S if row.server_started == row.server_now else ALL_LOST_FOR_S
        return Life.UNSEEN if now >= max(since + grace_s, self._lost_at + ALL_LOST_FOR_S) else Life.LIVES

    def _moving(self, owner: str, row: OwnerRow | None) -> Life:
        now, beats = time.monotonic(), -1 if row is None else row.beats
        seen, since = self._beats.get(owner, (None, now))
        if seen != beats:
            since = now
        self._beats[owner] = beats, since
        return Life.STALLED if now - since >= LEASE_S else Life.LIVES

    async def _take(self, raw: Any) -> None:  # noqa: ANN401 - asyncpg's connection
        """Take the lock, before the row says that it is held."""
        lock = lock_of(self.me)
        await raw.fetch(_FREE, lock)
        await raw.execute("SELECT pg_advisory_lock($1)", lock)
        facts = (self.me, lock, self._place, socket.gethostname(), os.getpid(), EPOCH, self._serves, self._started_at)
        await raw.execute(_NOTE, *facts)
        self._old_at, self._old = time.monotonic(), await self._old_rows(raw)

    async def _beat(self, raw: Any) -> None:  # noqa: ANN401 - see above
        if await raw.execute(_BEAT, self.me, lock_of(self.me)) != "UPDATE 1":
            raise ConnectionResetError("the lock or the row of this process is gone")
        if time.monotonic() >= self._old_at + _STILL_FOR_S:
            await raw.execute(_FORGET, [owner for owner, _ in self._old], [beats for _, beats in self._old])
            self._old_at, self._old = time.monotonic(), await self._old_rows(raw)

    async def _old_rows(self, raw: Any) -> list[tuple[str, int]]:  # noqa: ANN401 - see above
        return [(row[0], row[1]) for row in await raw.fetch(_OLD, time.time() - _FORGOTTEN_S)]

    def _lost(self) -> None:
        self._lost_at = time.monotonic()

    async def leave(self, raw: Any) -> None:  # noqa: ANN401 - see above
        """Clear away what says that this process was here, where nobody can need that any more."""
        await raw.execute(_LEAVE, self.me, self._started_at - _CLOCKS_S)


def _living(connection: Connection) -> list[LivingOwner]:
    with connection.begin():
        return living.owners(connection)


def _rows(connection: Connection, ids: Collection[str]) -> list[OwnerRow]:
    with connection.begin():
        return [OwnerRow(*row) for row in connection.execute(_SOME, {"ids": [*ids]})]
