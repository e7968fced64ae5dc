"""Which attempts the tasks of this process have in hand, so that what none of them has can be told apart.

Kept in memory on purpose: it is about the tasks of this process, and ends with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from saga_mcp.domain.stranded import Attempt


class InHand:
    """The sagas that tasks here may send something for, and what they have sent."""

    def __init__(self) -> None:
        self._holders = Counter[str]()
        self._let_go: set[str] = set()
        self._sent: dict[str, set[Attempt]] = {}

    @contextmanager
    def holding(self, saga_id: str) -> Generator[None]:
        """From before an intent is stored until its outcome is: nobody else may make anything of it."""
        self._holders[saga_id] += 1
        try:
            yield
        finally:
            self._holders[saga_id] -= 1
            if not self._holders[saga_id]:
                del self._holders[saga_id]
            self._let_go.add(saga_id)

    @contextmanager
    def sending(self, saga_id: str, attempt: Attempt) -> Generator[None]:
        """From before an attempt is sent until its outcome is stored; left by an exception, it stays marked as sent."""
        self._sent.setdefault(saga_id, set()).add(attempt)
        yield
        self._sent[saga_id].discard(attempt)
        if not self._sent[saga_id]:
            del self._sent[saga_id]

    def held(self, saga_id: str) -> bool:
        """Whether a task has something of this saga in hand, or is about to."""
        return self._holders[saga_id] > 0

    def sent(self, saga_id: str) -> frozenset[Attempt]:
        """The attempts whose outcome is not stored, of those that were sent."""
        return frozenset(self._sent.get(saga_id, ()))

    def take_let_go(self) -> tuple[str, ...]:
        """The sagas that tasks have let go of since they were taken last; the caller is to look at them."""
        taken = tuple(saga_id for saga_id in self._let_go if not self.held(saga_id))
        self._let_go.difference_update(taken)
        return taken

    def look_again(self, saga_id: str) -> None:
        """The look at this saga came to nothing."""
        self._let_go.add(saga_id)

    def forget(self, saga_id: str, attempts: frozenset[Attempt]) -> None:
        """What came of these attempts is recorded."""
        left = self.sent(saga_id) - attempts
        self._sent.pop(saga_id, None)
        if left:
            self._sent[saga_id] = set(left)
