"""Under which limits an undo part is attempted: those of its frozen entry, or of the undo a call registered itself."""

from __future__ import annotations

from dataclasses import dataclass

from saga_mcp.domain.state import Part
from saga_mcp.tools.pair import Pair
from saga_tools import Retry
from saga_tools.server import UNDO_RETRY

_DEADLINE_FACTOR = 10
"""An undo's hard deadline, in time limits (DESIGN.md 5.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPolicy:
    """Under which limits a part is undone: those of its frozen entry, or of the undo a call registered itself."""

    retry: Retry
    timeout_s: float

    @property
    def hard_deadline_s(self) -> float:
        """From an attempt's beginning (DESIGN.md 5.1)."""
        return self.timeout_s * _DEADLINE_FACTOR


def policy_of(pair: Pair, part: Part) -> UndoPolicy:
    """Under which limits a part is undone, by the pair as it was frozen."""
    if 0 <= part.spec.entry < len(pair.undo):
        entry = pair.undo[part.spec.entry]
        return UndoPolicy(retry=entry.retry, timeout_s=entry.timeout_s)
    limits = part.spec.limits
    if limits is None:  # registered before these were stored
        return UndoPolicy(retry=UNDO_RETRY, timeout_s=pair.timeout_s)
    retry = Retry(attempts=limits.attempts, first_delay_s=limits.first_delay_s, max_delay_s=limits.max_delay_s)
    return UndoPolicy(retry=retry, timeout_s=limits.timeout_s)
