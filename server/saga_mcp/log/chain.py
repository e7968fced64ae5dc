"""The hash chain over the events of a saga: what makes a later change of the log visible (SEMANTICS.md S11.5).

Each link is a digest of the link before it, of the event without its values, and of a salted commitment to these. So
values can be wiped and the chain still holds; the salt goes with them, or a value that is easy to guess could be found
by trying. Lies beside the port, not in an adapter: every database keeps the same chain.

It shows what was changed by whoever does not compute it anew: there is no secret in it. The head of a saga, kept
elsewhere, shows the rest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from saga_mcp.domain.events import SagaWiped

START: Final = bytes(32)
"""What the first link follows."""

SALT_BYTES: Final = 16
_NO_VALUES: Final = bytes(32)


def new_salt() -> bytes:
    """A salt of one event."""
    return os.urandom(SALT_BYTES)


def commitment(salt: bytes, payload: str) -> bytes:
    """What stands for the values of an event in its link."""
    return hashlib.sha256(salt + payload.encode("ascii")).digest()


class Facts(NamedTuple):
    """What a link covers besides the link before it, and the values."""

    saga_id: str
    seq: int
    type: str
    version: int
    at: float
    batch_id: str
    facts: str


def link(before: bytes, facts: Facts, committed: bytes | None) -> bytes:
    """The link of an event.

    Args:
        before: The link of the event before it, or `START`.
        facts: The event without its values.
        committed: The commitment to its values; None: it has none.
    """
    # No part can run into the next: the digests have a fixed length, and only `facts`, at the end, is free text.
    head = f"{facts.saga_id}\n{facts.seq}\n{facts.type}\n{facts.version}\n{float(facts.at)!r}\n{facts.batch_id}\n"
    text = (head + facts.facts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(before + (committed or _NO_VALUES) + text).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One stored event, as a check of the chain sees it."""

    facts: Facts
    committed: bytes | None
    link: bytes | None
    """None: it was stored before there was a chain."""
    values: tuple[bytes, str] | None
    """Salt and payload; None: there are none, or they were wiped."""
    unreadable: bool = False
    """Its values are there, and cannot be decrypted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the saga itself says about its events."""

    saga_id: str
    seq: int
    head: bytes | None
    chained_from: int
    """Number of the first event that the chain covers."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The first event that is not as it was written."""

    seq: int
    why: str


def check(row: Row, events: Sequence[Link]) -> Broken | None:
    """Follow the chain of a saga from its first event to its head; the first thing that is wrong, if anything is."""
    before, seq = START, 0
    wiped = wiped_at(events)
    for event in events:
        seq += 1
        try:
            broken = _event(row, event, before, seq, wiped)
        except (TypeError, ValueError, AttributeError):  # a database may give back anything that somebody put there
            broken = Broken(seq, "holds what saga-mcp never writes")
        if broken is not None:
            return broken
        before = event.link or before
    if seq < row.seq:
        return Broken(seq + 1, f"is missing: the saga has {row.seq} events, and its end was cut off")
    head = row.head or START
    return None if head == before else Broken(seq, "is not the one that the saga's row names as its last")


def wiped_at(events: Iterable[Link]) -> int:
    """Number of the last event that says that the values before it were wiped; 0: there is none.

    One that somebody added has no link that fits, so `check` names it.
    """
    return max((n for n, event in enumerate(events, start=1) if event.facts.type == SagaWiped.__name__), default=0)


def _event(row: Row, event: Link, before: bytes, seq: int, wiped: int) -> Broken | None:
    if event.facts.seq != seq:
        return Broken(seq, "is missing")
    if seq > row.seq:
        return Broken(seq, f"was added: the saga has {row.seq} events")
    if event.link is None:
        return Broken(seq, "has lost its link in the chain") if seq >= row.chained_from else None
    if seq < row.chained_from:
        return Broken(seq, "has a link in the chain, and was written before there was one")
    if event.link != link(before, event.facts, event.committed):
        return Broken(seq, "was changed, or stands where another one was")
    return _values(event, seq, wiped)


def _values(event: Link, seq: int, wiped: int) -> Broken | None:
    if event.unreadable:
        return Broken(seq, "has values that were changed: they cannot be decrypted")
    if event.committed is None:
        return None if event.values is None else Broken(seq, "has values, and was written without")
    if event.values is None:
        return None if seq < wiped else Broken(seq, "has lost its values, and the saga was not wiped")
    return None if event.committed == commitment(*event.values) else Broken(seq, "has values that were changed")
