"""The port of whoever keeps a saga log in order: is it as it was written, and what of it is not needed any more.

Apart from `log.port`, which is what a running saga needs of its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from saga_mcp.log.chain import Broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A saga whose chain was followed."""

    saga_id: str
    realm: str
    """Empty: its row is gone."""
    events: int
    uncovered: int
    """Events at its beginning that were stored before there was a chain: nothing can be said of these."""
    wiped: bool
    head: str
    """The last link, in hex; empty: none of it is covered."""
    broken: Broken | None
    """The first event that is not as it was written; None: all that are covered are."""
    row_differs: str = ""
    """Where the saga's row, of which lists are made, does not say what its events give; empty: nowhere."""

    pairs_differ: tuple[tuple[int, str], ...] = ()
    """Steps whose frozen pair, which its events only name by a hash, is not what was stored: the number, and why."""
    unreadable: str = ""
    """Why this version cannot read its events, be they as written or not; empty: it can."""
    noted: bool = False
    """Its row says that its events cannot be read."""

    @property
    def as_written(self) -> bool:
        """Whether nothing was found that somebody changed."""
        return self.broken is None and not self.row_differs and not self.pairs_differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A saga at rest."""

    saga_id: str
    phase: str
    events: int
    ended_at: float
    """Wall clock, in seconds since the epoch."""
    alerts: int
    """How many alerts of it are not delivered."""


class LogKeeping(Protocol):
    """Looks after a saga log. Every method raises `LogUnavailable` where the database cannot be used."""

    async def saga_ids(self) -> Sequence[str]:
        """Every saga of the database, also one of which only events, or only a row, are left."""
        ...

    async def check(self, saga_id: str) -> Checked | None:
        """Follow the chain of a saga; None: there is nothing of it in the database."""
        ...

    async def ended(
        self, realm: str, before: float, *, committed_before: float, with_values: bool = False
    ) -> Sequence[Ended]:
        """Sagas of the realm at rest, the oldest first.

        Args:
            realm: of which they are.
            before: the wall clock time, in seconds since the epoch, before which they ended.
            committed_before: the same of those that were committed, which may still be reverted for a while.
            with_values: only those that are not wiped.
        """
        ...

    async def prune(self, saga_id: str, *, alerts_too: bool) -> str:
        """Remove a saga that is at rest, but for its tombstone; why it was left, empty: it was not.

        Args:
            saga_id: which.
            alerts_too: nobody delivers alerts any more: those that are left go with it. Without, it waits for them.
        """
        ...

    async def wipe(self, saga_id: str) -> str:
        """Remove the values of a saga that is at rest and as it was written; why they were left, empty: they were not.

        What was changed keeps its values: without them nobody could see any more that they were changed.
        """
        ...

    async def overwrite(self) -> bool:
        """Let nothing that was removed stay in the files; False: readers still see it, so try again later."""
        ...

    async def free_space(self) -> int:
        """Give back freed space where that is cheap, and forget keys that nothing needs; return how many bytes."""
        ...
