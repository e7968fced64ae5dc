"""A saga as one reply sees it: what is read off the fold is read once, however many parts of the reply say it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from saga_mcp.domain.attention import Item, Tally, counts, items, state_with, tally
from saga_mcp.domain.hiding import hidden
from saga_mcp.domain.pausing import Pause, held_call, held_undo
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import Phase
from saga_mcp.edge.clean import escape


@dataclass(frozen=True, kw_only=True)  # no slots: what looks at every step is computed only if somebody asks
class Look:
    """A saga, its reported state, and what waits for a person in it."""

    saga: Saga
    items: tuple[Item, ...]
    state: str
    held: tuple[Step, Pause] | None = None
    """The undo whose turn it is, or the call that was allowed, where a person has paused what it calls."""

    @classmethod
    def at(cls, saga: Saga, paused: Mapping[str, Pause] | None = None) -> Self:
        """Look at `saga` now, as it may be shown.

        Args:
            saga: The saga.
            paused: What is paused, by tool, where that may matter to it.
        """
        saga = hidden(saga)
        waiting = items(saga)
        return cls(
            saga=saga,
            items=waiting,
            state=state_with(saga, waiting),
            held=(held_undo(saga, paused) or held_call(saga, paused)) if paused else None,
        )

    @property
    def needs_person(self) -> bool:
        """Whether something is unsettled that only a person can settle."""
        return self.state != self.saga.phase

    @property
    def plainly_open(self) -> bool:
        """Whether there is nothing to count yet: it is open, and nobody has to be asked."""
        return self.saga.phase is Phase.ACTIVE and not self.needs_person

    @cached_property
    def tally(self) -> Tally:
        """What became of the steps."""
        return tally(self.saga)

    @property
    def counts(self) -> str:
        """E.g. `3 undone, 0 open`."""
        return escape(counts(self.saga, self.tally))

    @property
    def summary(self) -> str:
        """The line that sums it up, e.g. `compensated: 3 undone, 0 open`."""
        return f"{self.state}: {self.counts}"
