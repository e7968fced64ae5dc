"""An exhaustive walk over the machine: every state that any order of an alphabet's events can reach.

States that differ only in what nothing is decided on (how many events there were, how often was tried) count as one,
which makes their number finite. Published state tables of this kind reached invalid states when they were
model-checked (Ravn et al. on WS-BusinessActivity); ours is checked on every run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.domain.alphabet import Alphabet, marked_events, static_events

from saga_mcp.domain.errors import IllegalTransition
from saga_mcp.domain.events import Event, UndoRegistered
from saga_mcp.domain.machine import apply
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.vector import Vector

NEW = Saga(id="sg-walk")
_MANY = 2


@dataclass(frozen=True)
class Edge:
    """One legal move."""

    before: Saga
    event: Event
    after: Saga


@dataclass
class Walk:
    """All states of an alphabet, how each was first reached, and what was found wrong on the way."""

    alphabet: Alphabet
    came_from: dict[Saga, tuple[Saga, Event] | None] = field(default_factory=dict[Saga, "tuple[Saga, Event] | None"])
    wrong: list[str] = field(default_factory=list[str])

    def path(self, saga: Saga) -> list[Event]:
        """The events by which `saga` was first reached."""
        events: list[Event] = []
        came = self.came_from.get(saga)
        while came is not None:
            events.append(came[1])
            came = self.came_from[came[0]]
        return events[::-1]

    def blame(self, what: str, saga: Saga, event: Event | None = None) -> None:
        """Note a violation with the shortest way to it."""
        way = " ".join(brief(e) for e in [*self.path(saga), *([event] if event is not None else [])])
        self.wrong.append(f"{what}: {way}")


def explore(alphabet: Alphabet, walk: Walk | None = None) -> Iterator[Edge]:
    """Yield every legal edge between reachable states, breadth first.

    Anything but an `IllegalTransition` that the machine raises ends the walk: it has to be total.
    """
    walk = walk or Walk(alphabet)
    always = static_events(alphabet)
    walk.came_from[NEW] = None
    queue = deque([NEW])
    while queue:
        saga = queue.popleft()
        for event in (*always, *marked_events(alphabet, saga)):
            if isinstance(event, UndoRegistered) and _has_registered(saga, event.step):
                continue
            try:
                after = canonical(apply(saga, event))
            except IllegalTransition:
                continue
            if after not in walk.came_from:
                walk.came_from[after] = (saga, event)
                queue.append(after)
            yield Edge(saga, event, after)


def _has_registered(saga: Saga, number: int) -> bool:
    step = saga.find_step(number)
    return step is not None and bool(step.registered)


def canonical(saga: Saga) -> Saga:
    """The state with event numbers as ranks, and counts that nothing is decided on capped."""
    marks = {mark.seq for mark in saga.savepoints} | {saga.target}
    if saga.abort_wanted is not None:
        marks.add(saga.abort_wanted.target)
    for step in saga.steps:
        marks |= {step.intent_seq, step.order}
    rank = {seq: place for place, seq in enumerate(sorted(marks - {0}), 2)} | {0: 0}
    return replace(
        saga,
        seq=len(rank) + 1,
        target=rank[saga.target],
        cause="",
        reason="",
        aborted_by="",
        driver="me",
        steps=Vector[Step].of(_canonical_step(step, rank) for step in saga.steps),
        savepoints=tuple(replace(mark, seq=rank[mark.seq]) for mark in saga.savepoints),
        abort_wanted=None
        if saga.abort_wanted is None
        else replace(saga.abort_wanted, cause="", by="", reason="", target=rank[saga.abort_wanted.target]),
    )


def _canonical_step(step: Step, rank: dict[int, int]) -> Step:
    return replace(
        step,
        intent_seq=rank[step.intent_seq],
        order=rank[step.order],
        attempts=0,
        unknown_attempts=min(step.unknown_attempts, _MANY),
        owner="me",
        parts=None if step.parts is None else tuple(_canonical_part(part) for part in step.parts),
    )


def _canonical_part(part: Part) -> Part:
    return replace(part, attempts=0, tries=min(part.tries, 1), owner="me")


def brief(event: Event) -> str:
    """An event for a person who reads a counter-example."""
    shown: list[str] = []
    for name in ("step", "part", "landed", "by", "done", "running", "end_known", "effect", "item", "target"):
        value = getattr(event, name, None)
        if isinstance(value, str | int) and value:
            shown.append(f"{name}={value}")
    plan = getattr(event, "plan", None)
    if plan is not None:
        shown.append(plan.tool)
    parts = getattr(event, "parts", ())
    if parts != ():
        shown.append("unbuilt" if parts is None else "+".join(part.tool or part.action for part in parts))
    return f"{type(event).__name__}({', '.join(shown)})"
