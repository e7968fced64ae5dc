"""A saga as one reply sees it: what is read off the whole fold is read once, however many parts of the reply say it."""

from dataclasses import dataclass
from typing import Self

from saga_mcp.domain.attention import Item, items, summary
from saga_mcp.domain.state import Saga
from saga_mcp.edge.clean import escape


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A saga, what waits for a person in it, and the line that sums it up."""

    saga: Saga
    items: tuple[Item, ...]
    summary: str
    """E.g. `compensated: 3 undone, 0 open`."""

    @classmethod
    def at(cls, saga: Saga) -> Self:
        """Look at `saga` now."""
        return cls(saga=saga, items=items(saga), summary=escape(summary(saga)))

    @property
    def state(self) -> str:
        """The reported state, with which the line begins."""
        return self.summary.partition(": ")[0]

    @property
    def counts(self) -> str:
        """The rest of the line."""
        return self.summary.partition(": ")[2]

    @property
    def needs_person(self) -> bool:
        """Whether something is unsettled that only a person can settle."""
        return self.state != self.saga.phase
