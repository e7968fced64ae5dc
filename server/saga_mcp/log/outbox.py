"""The port of the outbox: alerts that are stored with the events that made them, until they are delivered (S10.6).

An alert stands in its saga's line. Only the first of a line is sent, and the next one once that is acknowledged. Who
sends it has claimed it by compare-and-set, so that of several processes on one database one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from saga_mcp.domain.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAlert:
    """An alert in the outbox."""

    saga_id: str
    seq: int
    n: int
    realm: str
    type: str
    subject: str
    at: float
    """Wall clock of the decision, in seconds since the epoch."""
    data: JsonObject
    owner: str = ""
    """Who sends it; empty: nobody."""
    attempts: int = 0
    """How often it was sent, the attempt under way included."""

    @property
    def id(self) -> str:
        """The same however often it is sent."""
        return f"{self.saga_id}:{self.seq}:{self.n}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCounts:
    """What lies in the outbox of a realm."""

    pending: int
    """Alerts that are to be delivered."""
    parked: int
    """Alerts that are kept back until a person says so."""
    oldest_at: float | None = None
    """Wall clock of the oldest that is to be delivered."""
    failing: int = 0
    """How many of those that are to be delivered were sent, and not acknowledged."""
    most_attempts: int = 0
    """How often one of those was sent."""


class Outbox(Protocol):
    """The alerts of a database. Every method raises `LogUnavailable` where it cannot be used."""

    async def due(self, realm: str, now: float, *, limit: int) -> Sequence[PendingAlert]:
        """The first of each line that is due by the wall clock, claimed or not, the one that is due longest first."""
        ...

    async def claim(self, seen: PendingAlert, owner: str) -> PendingAlert | None:
        """Take it upon `owner` to send what is as it was seen; None: another one was faster."""
        ...

    async def delivered(self, claimed: PendingAlert, *, go_on: bool) -> PendingAlert | None:
        """Remove what was acknowledged; with `go_on` return the next of its line, claimed. None: that is all."""
        ...

    async def failed(self, claimed: PendingAlert, again_at: float) -> None:
        """Give it back, due again at a time of the wall clock."""
        ...

    async def waiting_for(self, realm: str, seconds: float, *, limit: int) -> Sequence[str]:
        """Sagas whose line has not moved for so many watched seconds (S9.4)."""
        ...

    async def counts(self, realm: str) -> OutboxCounts:
        """What lies there."""
        ...
