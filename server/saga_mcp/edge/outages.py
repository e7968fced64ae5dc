"""Undos that wait for an upstream: nobody has to do anything yet, but whoever looks is told (S6.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.undo_events import Outage
from saga_mcp.domain.values import JsonObject, PartState, Phase
from saga_mcp.edge.clean import escape


@dataclass(frozen=True, slots=True)
class Held:
    """An undo that waits."""

    saga_id: str
    step: Step
    outage: Outage
    error: str
    """Why the upstream is not reached."""

    @property
    def name(self) -> str:
        """How people name the step on the command line."""
        return f"{self.saga_id}.{self.step.number}"

    def words(self) -> str:
        """The undo and what it waits for, in a line."""
        return f"the undo of step {self.step.number} ({escape(self.step.tool)}) {waits(self.outage)}"

    def json(self) -> JsonObject:
        """The same for programs."""
        found = self.outage
        return {
            "item": self.name,
            "tool": self.step.tool,
            "upstream": found.upstream,
            "unreached_since": utc(found.since),
            "again_at": utc(found.again_at),
            "error": self.error,
        }


def held(saga: Saga) -> Iterator[Held]:
    """The undos of a saga that wait for an upstream."""
    if saga.phase is not Phase.COMPENSATING:
        return
    for step in saga.loose_steps:
        part = step.next_part
        if part is not None and (outage := waited_for(part)) is not None:
            yield Held(saga.id, step, outage, part.error)


def waited_for(part: Part) -> Outage | None:
    """What a part waits for, also while it is being looked whether that is up."""
    return part.outage if part.state in {PartState.PENDING, PartState.INTENDED} else None


def waits(outage: Outage) -> str:
    """What is waited for, since when, and until when."""
    since, again = utc(outage.since), utc(outage.again_at)
    return f"waits for upstream {escape(outage.upstream)}, not reached since {since}, tried again by {again}"


def utc(at: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def hangs(steps: Sequence[int]) -> str:
    """What agents are told of steps that a process runs past their hard deadline, and says nothing of."""
    numbers = f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"
    return (
        f"Tell the user: the server process that runs {numbers} does not answer, and nothing is undone before it ends. "
        "`saga-mcp attention` says which process it is and what to do."
    )
