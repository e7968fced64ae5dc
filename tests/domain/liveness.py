"""Whether everything comes to rest: the walk over decisions, and what it is asked about dead ends and crashes."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.domain.alphabet import Alphabet
from tests.domain.checks import wrong_move, wrong_with
from tests.domain.moves import Move, Who, driving, moves
from tests.domain.walk import NEW, Edge, brief, canonical

from saga_mcp.domain.approvals import begin_allowed
from saga_mcp.domain.attention import NEEDS_ATTENTION, items, reported_state
from saga_mcp.domain.duties import Resend, RunUndo, SendApproved, busy, duties
from saga_mcp.domain.errors import IllegalTransition, ItemRefused, Refused, StepUnsettled
from saga_mcp.domain.events import Event
from saga_mcp.domain.machine import apply
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import send_again
from saga_mcp.domain.takeover import lost
from saga_mcp.domain.undo_decisions import undo_intended
from saga_mcp.domain.values import ItemKind, Phase

_OTHER = "other"
"""A process that drove the saga once."""
_ENOUGH = 60
"""No saga of a walk needs more moves than this to come to rest."""


@dataclass
class Life:
    """All states that decisions reach, and who leads where."""

    alphabet: Alphabet
    came_from: dict[Saga, tuple[Saga, str] | None] = field(default_factory=dict[Saga, "tuple[Saga, str] | None"])
    back: dict[Who, dict[Saga, set[Saga]]] = field(default_factory=dict[Who, "dict[Saga, set[Saga]]"])
    verbs: set[str] = field(default_factory=set[str])
    """Items and verbs that were tried, as `item: verb`."""
    wrong: list[str] = field(default_factory=list[str])

    def blame(self, what: str, saga: Saga, move: str = "") -> None:
        """Note a violation with the shortest way to it."""
        way: list[str] = [move] if move else []
        came = self.came_from.get(saga)
        while came is not None:
            way.append(came[1])
            came = self.came_from.get(came[0])
        self.wrong.append(f"{what}: {', '.join(reversed(way))}")


def live(alphabet: Alphabet, *, limit: int | None = None) -> Life:
    """Walk every decision from every state, checking each state and move on the way."""
    life = Life(alphabet, back={who: {} for who in Who})
    life.came_from[NEW] = None
    queue = deque([NEW])
    while queue and (limit is None or len(life.wrong) < limit):
        saga = queue.popleft()
        for move in moves(alphabet, saga):
            after = _made(life, saga, move)
            if after is None:
                continue
            life.back[move.who].setdefault(after, set()).add(saga)
            if after not in life.came_from:
                life.came_from[after] = (saga, move.name)
                queue.append(after)
                for what in (*wrong_with(after), *_wrong_rest(after), *_unfenced(after)):
                    life.blame(what, after)
    return life


def _made(life: Life, saga: Saga, move: Move) -> Saga | None:
    """The state after a decision; None where it was refused, as it may be, or changed nothing."""
    try:
        events = move.decide()
    except ItemRefused:
        # A call that never ended may be known to have landed: only that it has ended is then open.
        if move.name != f"{ItemKind.IN_DOUBT}: resolve --absent":
            life.blame("a verb that is offered was refused", saga, move.name)
        return None
    except Refused:
        if move.who is not Who.AGENT:
            life.blame("refused", saga, move.name)
        return None
    except IllegalTransition as error:
        life.blame(f"illegal ({error})", saga, move.name)
        return None
    if move.who is Who.PERSON:
        life.verbs.add(move.name)
        if not events and "probe" not in move.name and "idle" not in move.name:
            life.blame("a verb did nothing", saga, move.name)
    return _folded(life, saga, events, move.name) if events else None


def _folded(life: Life, saga: Saga, events: Iterable[Event], name: str) -> Saga:
    now = saga
    for event in events:
        after = apply(now, event)
        for what in wrong_move(Edge(now, event, after)):
            life.blame(what, saga, f"{name} ({brief(event)})")
        now = after
    return canonical(now)


def _wrong_rest(saga: Saga) -> Iterator[str]:
    """A saga at rest is final, waits for the agent or waits for a person, and says so."""
    if busy(saga) or saga.phase is not Phase.COMPENSATING:
        return
    if reported_state(saga) != NEEDS_ATTENTION:
        yield "a rollback rests, and nobody is asked"


def _unfenced(saga: Saga) -> Iterator[str]:
    """What is due is begun by the process that drives the saga, and by no other one that drove it before."""
    for duty in duties(saga):
        begun: tuple[Event, ...] = ()
        match duty:
            case RunUndo(step=step, part=part):
                begun = undo_intended(saga, step.number, part.id, _OTHER)
            case Resend(step=step):
                begun = send_again(saga, step.number, _OTHER)
            case SendApproved(step=step):
                with contextlib.suppress(StepUnsettled):
                    begun = begin_allowed(saga, step.number, _OTHER, None)
            case _:
                pass
        if begun:
            yield f"{type(duty).__name__} was begun by a process that does not drive the saga"


def dead_ends(life: Life) -> list[Saga]:
    """States from which no final phase can be reached without luck.

    Duties and the outcomes of what runs are enough, or the agent is at turn (the saga is active and nothing in it is
    hopeless), or what waits is reported and a person's verbs lead on.
    """
    at_rest = {
        saga
        for saga in life.came_from
        if saga.final or (saga.phase is Phase.ACTIVE and saga.abort_wanted is None and not _alarmed(saga))
    }
    helped = _leading_to(life, at_rest, (Who.SYSTEM, Who.PERSON))
    reported = {saga for saga in helped if _alarmed(saga)}
    found = _leading_to(life, at_rest | reported, (Who.SYSTEM,))
    return [saga for saga in life.came_from if saga not in found]


def _alarmed(saga: Saga) -> bool:
    return reported_state(saga) == NEEDS_ATTENTION


def _leading_to(life: Life, goal: set[Saga], who: tuple[Who, ...]) -> set[Saga]:
    found, queue = set(goal), deque(goal)
    while queue:
        saga = queue.popleft()
        for kind in who:
            for before in life.back[kind].get(saga, ()):
                if before not in found:
                    found.add(before)
                    queue.append(before)
    return found


def after_crash(alphabet: Alphabet, saga: Saga) -> str | None:
    """What is wrong with recovery from a crash of everybody in this state; None: nothing."""
    drive = driving(alphabet)
    now = _fold(saga, lost(saga, _everybody, drive.bind))
    if any(step.running and not step.overdue for step in now.steps) or now.undoing:
        return "a dead process's work still counts as running"
    if lost(now, _everybody, drive.bind):
        return "recovery is not idempotent"
    for luck in (_lucky, _unlucky):
        rest = _driven(alphabet, now, luck)
        if rest is None:
            return f"recovery never ends ({luck.__name__})"
        if not (rest.final or rest.phase is Phase.ACTIVE or _alarmed(rest)):
            return f"recovery rests in a saga that is {reported_state(rest)} ({luck.__name__})"
        if rest.phase is Phase.ACTIVE and rest.unended and not items(rest):
            return f"recovery leaves a step unended ({luck.__name__})"
    return None


def _everybody(_owner: str) -> bool:
    return True


def _fold(saga: Saga, events: Iterable[Event]) -> Saga:
    for event in events:
        saga = apply(saga, event)
    return saga


def _lucky(name: str) -> bool:
    return any(word in name for word in ("as due", "resend", "landed", "undo", "ask", "leave")) and "missed" not in name


def _unlucky(name: str) -> bool:
    return any(word in name for word in ("as due", "give up", "nothing", "None", "lost", "undo", "ask", "leave"))


def _driven(alphabet: Alphabet, saga: Saga, choose: Callable[[str], bool]) -> Saga | None:
    """The saga driven by its duties until nothing is due; None: it never is."""
    for _ in range(_ENOUGH):
        if not (duties(saga) or saga.running or saga.undoing):
            return saga
        system = [move for move in moves(alphabet, saga) if move.who is Who.SYSTEM]
        preferred = [move for move in system if choose(move.name)] or system
        for move in preferred:
            events = move.decide()
            if events:
                saga = _fold(saga, events)
                break
        else:
            return saga
    return None
