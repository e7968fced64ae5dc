"""What may be known of a process that owns work, or drives it (SEMANTICS.md S3.5, S10.5)."""

from __future__ import annotations

from enum import Enum


class Life(Enum):
    """What is known of a process."""

    LIVES = "lives"
    STALLED = "stalled"
    """It holds its claim to be alive and shows no sign of it: others may drive its sagas; what it runs is its own."""
    UNSEEN = "unseen"
    """Its claim is gone, which proves nothing: what it runs may go on, up to its hard deadline."""
    DEAD = "dead"
    """Proved: what ran inside of it has ended."""

    @property
    def is_gone(self) -> bool:
        """Whether what it was doing is looked after by others."""
        return self in {Life.UNSEEN, Life.DEAD}
