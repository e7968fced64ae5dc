"""What a workflow and a worker tell each other: ids and times, never a value of the outside world (S11.4).

Changes here have to read what older versions wrote: a workflow may be of yesterday's. New fields need defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

WORKFLOW: Final = "saga-mcp.drive"
ACTIVITY: Final = "saga-mcp.turn"
WAKE: Final = "wake"


def queue_on(task_queue: str, host: str) -> str:
    """The task queue on which only the workers of one machine listen."""
    return f"{task_queue}@{host}"


@dataclass(frozen=True, slots=True)
class Order:
    """Which saga is to be driven."""

    realm: str
    saga_id: str
    waits: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds until attempts are due that an earlier turn has planned, by slot."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of a worker's turn at a saga."""

    rests: bool
    """There was nothing to drive."""
    again_in_s: float = 0.0
    """When the next turn is due, where it does not rest."""
    waits: dict[str, float] = field(default_factory=dict[str, float])
    """As in `Order`, from the end of the turn on."""
    hosts: list[str] = field(default_factory=list[str])
    """Keys of the machines whose workers alone can do what is due; where there are none, any worker can."""
