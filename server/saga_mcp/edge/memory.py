"""What this process remembers of its recent replies, to say things at the right time; losing it loses nothing else.

Bounded, in memory, and never decided on: a second process or a restart only repeats a longer sentence.
"""

from dataclasses import dataclass, field

from saga_mcp.edge.look import Look
from saga_mcp.engine.port import Caller
from saga_mcp.engine.recent import Recent

_LONG_EVERY = 10
"""Steps after which the long form of the trailing line is due again."""


@dataclass(frozen=True, slots=True)
class _Told:
    state: tuple[str, bool]
    step: int


@dataclass(slots=True)
class _Turn:
    """Calls of one caller that may open sagas, side by side."""

    waiting: int = 0
    opened: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Memory:
    """What was said to whom."""

    _told: Recent[str, _Told] = field(default_factory=Recent[str, _Told])
    _aborts: Recent[tuple[str, str, str, str], int] = field(default_factory=Recent[tuple[str, str, str, str], int])
    _turns: dict[str, _Turn] = field(default_factory=dict[str, _Turn])
    """Of callers with calls that wait."""

    def long_form_due(self, look: Look, number: int) -> bool:
        """Whether the reply of this step says how to finish: at first, after ten steps, and after a changed state."""
        saga = look.saga
        now = _Told((look.state, saga.pivot_passed), number)
        before = self._told.get(saga.id)
        due = before is None or before.state != now.state or number >= before.step + _LONG_EVERY
        if due:
            self._told.put(saga.id, now)
        return due

    def aborts(self, caller: Caller, tool: str, error: str) -> int:
        """Count an automatic abort, and return how many this caller met by the same tool and error."""
        key = (caller.id, caller.conversation, tool, error)
        count = (self._aborts.get(key) or 0) + 1
        self._aborts.put(key, count)
        return count

    def call_without_id(self, caller: Caller) -> None:
        """A call that may open a saga began."""
        self._turns.setdefault(caller.id, _Turn()).waiting += 1

    def answered(self, caller: Caller, opened: str) -> tuple[str, ...]:
        """That call ended; return all sagas that it and the calls of this caller beside it opened."""
        turn = self._turns[caller.id]
        if opened:
            turn.opened.append(opened)
        turn.waiting -= 1
        if not turn.waiting:
            del self._turns[caller.id]
        return tuple(turn.opened) if opened else ()
