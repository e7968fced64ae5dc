"""One look at one saga, as every driver makes it: take over what the dead left, and do what is due now.

Who looks, when, and how it waits in between, is the driver's. Here is what a look does, so that all drivers do the same
(DESIGN.md section 7). The saga log is the fence: two processes that look at once cost a lost compare-and-set, no more.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.duties import (
    Abort,
    Duty,
    Finish,
    Probe,
    ProbeUndo,
    Resend,
    RunUndo,
    SendApproved,
    duties,
    owners,
)
from saga_mcp.domain.errors import LogConflict, LogUnavailable
from saga_mcp.domain.hosts import awaited_hosts, done_on
from saga_mcp.domain.living import Life
from saga_mcp.domain.pausing import held_undo
from saga_mcp.domain.saga_decisions import abort_as_due, finish_rollback, give_back, take_over
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.stranded import Attempt, attempts_of, outlives_us
from saga_mcp.domain.undo_parts import part_of
from saga_mcp.engine.place import tool_of
from saga_mcp.engine.port import Allowances, Resender
from saga_mcp.engine.probing import Probing
from saga_mcp.engine.undo_probing import UndoProbing, asked_by
from saga_mcp.engine.undoing import Undoing
from saga_mcp.engine.workshop import Workshop
from saga_mcp.tools.pair import PairUnreadable
from saga_tools import Retry

_log = structlog.get_logger(__name__)

TROUBLE = Retry(first_delay_s=0.5, max_delay_s=60.0)
"""How long a saga that cannot be driven is left alone before it is tried again."""

Slot: TypeAlias = tuple[int, str, int]
"""An attempt of an undo part that is to come: step, part, and how often it was tried."""


@dataclass(slots=True)
class Course:
    """What a process remembers of a saga while it drives it."""

    wake: anyio.Event = field(default_factory=anyio.Event)
    """Set when there is reason to look again."""
    beside: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Probes and re-sends that run beside the rollback, by duty and step."""
    not_before: dict[Slot, float] = field(default_factory=dict[Slot, float])
    """When the next attempt of an undo part is due, by the clock of this process."""
    watched: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Undo parts whose upstream is down, by step and part: they are due when it comes up."""
    up: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Those of them whose upstream has come up since."""
    makes_do: bool = False
    """What is due is done as well as this process can, since nobody better came."""


class ToolMissing(Exception):
    """This process has not got what a saga's next move needs, or has it in another place; others may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What came of a look."""

    saga: Saga
    ours: bool = True
    """False: somebody living drives it, and nothing was done."""
    acted: bool = False
    """Something was done, so there is reason to look at once."""
    again_in_s: float = math.inf
    """When the first thing of those that wait is due; infinite: only a change of the log can make anything due."""
    awaits: tuple[str, ...] = ()
    """Machines that have to go on: nothing that is due may be done here (S1.3), and the saga is nobody's to drive."""


class Rounds:
    """Looks at sagas for the driver of this process.

    Args:
        workshop: What the engine works with.
        tasks: Where probes and re-sends run.
        assigned: Somebody else sees to it that one process at a time drives a saga, so its driving is taken over from
            the living too.
    """

    def __init__(self, workshop: Workshop, tasks: TaskGroup, *, assigned: bool = False) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._assigned = assigned
        self._undoing = Undoing(workshop, tasks)
        self._probing = Probing(workshop, tasks)
        self._undo_probing = UndoProbing(workshop, tasks)
        self._noticed: dict[tuple[str, Attempt], float] = {}
        """Since when attempts are known to have lost their owner, by saga."""
        self._resender: Resender | None = None
        self._allowances: Allowances | None = None

    def start(self, resender: Resender, allowances: Allowances) -> None:
        """Say who sends again what is to be sent again."""
        self._resender = resender
        self._allowances = allowances

    def stop(self) -> None:
        """Begin no new undo."""
        self._undoing.stop()

    async def look(self, saga_id: str, course: Course) -> Look:
        """Take the saga over where that is ours to do, and do one thing that is due.

        Raises:
            ToolMissing: another process, if any, has to do what is due; unless this one is to make do.
        """
        course.wake = anyio.Event()
        saga = await self.take(saga_id)
        due = duties(saga)
        here = self._shop.settings.host
        mine = done_on(due, here)
        if due and not mine and not course.beside:
            me = self._shop.owners.me
            if saga.driver == me:
                saga = (await self._shop.decide(saga_id, lambda now, _: give_back(now, me, here))).saga
            return Look(saga=saga, ours=False, awaits=awaited_hosts(saga, here))
        if saga.driver != self._shop.owners.me and (due or not self._assigned):
            return Look(saga=saga, ours=False)
        again_in_s = math.inf
        for duty in mine:
            if not course.makes_do:
                await self._require_tool(duty)
            if isinstance(duty, Probe | ProbeUndo | Resend | SendApproved):
                self._beside(saga, duty, course)
                continue
            wait = await self._due_in(saga, duty, course)
            if wait > 0:
                again_in_s = min(again_in_s, wait)
                continue
            await self._act(saga, duty)
            return Look(saga=saga, acted=True)
        return Look(saga=saga, again_in_s=again_in_s)

    async def _require_tool(self, duty: Duty) -> None:
        match duty:
            case RunUndo(step=step, part=part):
                missing = await self._undoing.missing(step, part)
            case Probe(step=step) | Resend(step=step) | SendApproved(step=step):
                missing = tool_of(self._shop.catalogue, step, self._shop.settings.host)[1]
            case ProbeUndo() | Abort() | Finish():
                missing = ""
        if missing:
            raise ToolMissing(missing)

    async def take(self, saga_id: str) -> Saga:
        """The state now, with the work of dead owners recorded and the driving ours where nobody living has it."""
        saga = await self._shop.log.load(saga_id)
        lives = await self._shop.lives(owners(saga))
        assigned, here = self._assigned, self._shop.settings.host
        if assigned:
            wanted = saga.driver != self._shop.owners.me and bool(done_on(duties(saga), here))
        else:
            wanted = not saga.driver and not awaited_hosts(saga, here)
        if not wanted and all(life is Life.LIVES for life in lives.values()):
            return saga
        lasting = await self._lasting(saga, lives)
        unproved, stalled = ({who for who, life in lives.items() if life is of} for of in (Life.UNSEEN, Life.STALLED))

        def dead(owner: str) -> bool:  # who is not known of came meanwhile, so it lives
            return lives.get(owner, Life.LIVES).is_gone

        decided = await self._shop.decide(
            saga_id,
            lambda now, driving: take_over(
                now, driving, dead, lasting, assigned=assigned, unproved=unproved, stalled=stalled, here=here
            ),
        )
        return decided.saga

    async def _lasting(self, saga: Saga, lives: Mapping[str, Life]) -> frozenset[Attempt]:
        """Attempts of dead owners that may go on, until their hard deadline has passed since this was noticed.

        They do where they run elsewhere, and where nobody knows that their owner is dead (S3.5).
        """
        gone = [(owner, life) for owner, life in lives.items() if life.is_gone]
        of_gone = ((life, each) for owner, life in gone for each in attempts_of(saga, owner))
        elsewhere = {each for life, each in of_gone if life is Life.UNSEEN or outlives_us(saga, each)}
        for slot in [slot for slot in self._noticed if slot[0] == saga.id and slot[1] not in elsewhere]:
            del self._noticed[slot]
        now = self._shop.clock.now()
        lasting: set[Attempt] = set()
        for attempt in elsewhere:
            since = self._noticed.setdefault((saga.id, attempt), now)
            with contextlib.suppress(PairUnreadable):  # then nothing will be sent for it either
                if now - since < await self._hard_deadline_s(saga, attempt):
                    lasting.add(attempt)
        return frozenset(lasting)

    async def _hard_deadline_s(self, saga: Saga, attempt: Attempt) -> float:
        step = saga.step(attempt.step)
        pair = await self._shop.pairs.of(step)
        part = part_of(step, attempt.part)
        return pair.hard_deadline_s if part is None else (await self._undoing.policy(step, part)).hard_deadline_s

    async def orphaned(self, saga: Saga) -> bool:
        """Whether a process that is gone has something of the saga in hand, or drives it."""
        return any(life.is_gone for life in (await self._shop.lives(owners(saga))).values())

    async def _due_in(self, saga: Saga, duty: Duty, course: Course) -> float:
        """Seconds until this duty's back-off is over; 0: now."""
        if not isinstance(duty, RunUndo):
            return 0.0
        part, slot = duty.part, (duty.step.number, duty.part.id)
        if held_undo(saga, await self._shop.log.paused(saga.realm)) is not None:
            return math.inf  # until something changes in the log
        # A person's "retry" clears both: it goes out at once.
        failed_before = part.attempts > 0 or (part.tries > 0 and part.error != "")
        if not failed_before or slot in course.up:
            course.up.discard(slot)
            return 0.0
        wait = await self._back_off(saga.id, duty.step, part, course)
        if wait > 0 and slot not in course.watched and self._undoing.until_up(saga.id, duty.step.number, part):
            course.watched.add(slot)
            self._tasks.start_soon(self._when_up, duty.step, part, course)
        return wait

    async def _when_up(self, step: Step, part: Part, course: Course) -> None:
        """Let a part be tried at once when all that it asks is up."""
        asked = await asked_by(self._shop, step, part)
        for each in asked:
            await each.comes_up()
        if asked:
            course.watched.discard((step.number, part.id))
            course.up.add((step.number, part.id))
            course.wake.set()

    async def _back_off(self, saga_id: str, step: Step, part: Part, course: Course) -> float:
        slot = (step.number, part.id, part.tries)
        now = self._shop.clock.now()
        if slot not in course.not_before:
            policy = await self._undoing.policy(step, part)
            if part.attempts >= policy.retry.attempts:
                return 0.0
            planned = self._undoing.again_in(saga_id, step.number, part)
            longest_s = policy.retry.delay_s(part.attempts or part.tries)
            course.not_before[slot] = now + (self._shop.clock.jitter(longest_s) if planned is None else planned)
        return course.not_before[slot] - now

    async def _act(self, saga: Saga, duty: Duty) -> None:
        match duty:
            case RunUndo():
                await self._undoing.run(saga, duty)
            case Abort():
                await self._shop.drive(saga.id, abort_as_due)
            case Finish():
                await self._shop.drive(saga.id, finish_rollback)
            case Probe() | ProbeUndo() | Resend() | SendApproved():  # pragma: no cover - these run beside
                pass

    def _beside(self, saga: Saga, duty: Probe | ProbeUndo | Resend | SendApproved, course: Course) -> None:
        slot = (type(duty).__name__, duty.step.number)
        if slot in course.beside:
            return
        course.beside.add(slot)
        number = duty.step.number

        async def work() -> None:
            match duty:
                case Probe():
                    await self._probing.run(saga, number)
                case ProbeUndo():
                    await self._undo_probing.run(saga, duty)
                case Resend():
                    assert self._resender is not None  # noqa: S101 - given at start
                    await self._resender.resend(saga, number)
                case SendApproved():
                    assert self._allowances is not None  # noqa: S101 - given at start
                    await self._allowances.send(saga, number)

        self._tasks.start_soon(self._guarded, saga.id, course, slot, work)

    async def _guarded(
        self, saga_id: str, course: Course, slot: tuple[str, int], work: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await work()
        except (LogUnavailable, LogConflict) as error:
            _log.warning("log_unavailable", saga_id=saga_id, reason=str(error))
            await self._shop.clock.sleep(TROUBLE.first_delay_s)
        except Exception:  # noqa: BLE001 - a bug at one step must not end the others
            _log.exception("driving_failed", saga_id=saga_id, step=slot[1])
            await self._shop.clock.sleep(TROUBLE.delay_s(4))
        finally:
            course.beside.discard(slot)
            course.wake.set()
