"""The outside world of one saga's life: what calls and undos really did there, whatever is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Call:
    """A forward action on its way."""

    step: int
    owner: str
    truth: str
    """ok | no | lost: landed, but the answer never comes | slow: lands with its answer, whenever that is."""
    running: bool = True


@dataclass
class UndoCall:
    """An undo on its way."""

    step: int
    part: str
    owner: str
    works: bool


@dataclass
class World:
    """What our calls did out there."""

    standing: set[int] = field(default_factory=set[int])
    calls: list[Call] = field(default_factory=list[Call])
    looking: list[Call] = field(default_factory=list[Call])
    """Calls that have succeeded, and what they left behind is being read."""
    undo: UndoCall | None = None
    executed: dict[int, int] = field(default_factory=dict[int, int])
    """How often the undo of a step really ran."""
    allowed: dict[int, int] = field(default_factory=dict[int, int])
    """How often a person let an undo run once more."""

    def running(self, step: int) -> bool:
        """Whether a call of the step is still out."""
        return any(call.step == step and call.running for call in self.calls)

    def may_land(self, step: int) -> bool:
        """Whether an effect of the step may still come; one that a probe has found is there (S3.4)."""
        return any(call.step == step and call.running and call.truth == "slow" for call in self.calls)
