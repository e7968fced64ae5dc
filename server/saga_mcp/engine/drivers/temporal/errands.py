"""A worker's turns at sagas: everything that is due now, done in tasks of the engine.

An activity of Temporal only waits for its errand, as a request waits for its step (DESIGN.md rule 6): that it is
cancelled, or that Temporal has given this worker up, ends the wait and nothing else. What another process has begun
meanwhile is fenced by the saga log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.duties import RunUndo, duties
from saga_mcp.domain.errors import DrivenOtherwise, LogUnavailable, SagaNotFound, SagaQuarantined
from saga_mcp.domain.hosts import host_key
from saga_mcp.domain.state import Saga
from saga_mcp.engine.drivers.rounds import Course, Rounds, Slot
from saga_mcp.engine.drivers.temporal.messages import Turn
from saga_mcp.engine.drivers.tenure import Tenure
from saga_mcp.engine.port import Allowances, Resender
from saga_mcp.engine.supervise import wait_for
from saga_mcp.engine.workshop import Workshop

_log = structlog.get_logger(__name__)

_SHORT_S: Final = 0.5
"""A wait that is not worth a timer of Temporal."""
_TURN_S: Final = 60.0
"""After so long a turn ends where something else is due at once: other sagas want one too."""
_LOOK_S: Final = 15.0
"""How often it is looked at what only the log can make due, or what runs on elsewhere."""


class NotOurs(Exception):
    """An undo that another process has begun may still run: nothing was sent, and nothing is until that has ended.

    Whoever has begun it is not proved dead; that Temporal does not hear of it proves nothing (S12.3).
    """


@dataclass(slots=True)
class _Errand:
    course: Course = field(default_factory=Course)
    ended: anyio.Event = field(default_factory=anyio.Event)
    turn: Turn | None = None
    error: Exception | None = None


class Errands:
    """The turns of this worker."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup, tenure: Tenure) -> None:
        self._shop = workshop
        self._tenure = tenure
        self._tasks = tasks
        self.rounds = Rounds(workshop, tasks, assigned=True)
        self._going: dict[str, _Errand] = {}
        self.stopping = anyio.Event()

    def start(self, resender: Resender, allowances: Allowances) -> None:
        """Say who sends again what is to be sent again."""
        self.rounds.start(resender, allowances)

    def stop(self) -> None:
        """Begin no new undo; turns end as soon as what runs is recorded."""
        self.stopping.set()
        self.rounds.stop()
        for errand in self._going.values():
            errand.course.wake.set()

    async def stopped(self) -> None:
        """Return when no turn is being taken."""
        while self._going:
            await next(iter(self._going.values())).ended.wait()

    async def take_turn(self, saga_id: str, waits: Mapping[str, float], *, makes_do: bool = False) -> Turn:
        """Do what is due, until something has to be waited for.

        Args:
            saga_id: The saga.
            waits: Seconds until attempts are due that were planned before, by slot.
            makes_do: Do what is due as well as this process can, though it lacks a tool.

        Raises:
            NotOurs: another process has an undo of the saga in hand.
            ToolMissing: this process has not got what is needed.
            LogUnavailable: the log cannot be used now, or others do not see that this process lives.
        """
        while (going := self._going.get(saga_id)) is not None:
            await going.ended.wait()  # of an activity that Temporal has given up
        errand = self._going[saga_id] = _Errand()
        now = self._shop.clock.now()
        errand.course.not_before.update({_slot(name): now + wait for name, wait in waits.items()})
        errand.course.makes_do = makes_do
        self._tasks.start_soon(self._run, saga_id, errand)
        await errand.ended.wait()
        if errand.error is not None:
            raise errand.error
        assert errand.turn is not None  # noqa: S101 - there is one where there is no error
        return errand.turn

    async def _run(self, saga_id: str, errand: _Errand) -> None:
        try:
            errand.turn = await self._turn(saga_id, errand.course)
        except (SagaQuarantined, SagaNotFound, DrivenOtherwise) as error:
            _log.error("saga_not_driven", saga_id=saga_id, reason=str(error))
            errand.turn = Turn(rests=True)
        except Exception as error:  # noqa: BLE001 - raised to the activity; others go on
            errand.error = error
        finally:
            del self._going[saga_id]
            errand.ended.set()

    async def _turn(self, saga_id: str, course: Course) -> Turn:
        clock = self._shop.clock
        until = clock.now() + _TURN_S
        while not self.stopping.is_set():
            if not self._shop.claimed:  # raised, so that Temporal waits longer from time to time, and keeps the plan
                raise LogUnavailable(self._shop.owners.trouble)
            if not await self._tenure.holds():
                return Turn(rests=True)  # with the next switch every saga that is due is told of anew
            look = await self.rounds.look(saga_id, course)
            if look.acted:
                if clock.now() > until:
                    return self._later(course, 0.0, look.saga)
                continue
            await self._require_no_other(look.saga)
            if look.awaits:
                # An older workflow knows no machines, and asks again soon.
                return Turn(rests=False, again_in_s=_LOOK_S, hosts=[host_key(host) for host in look.awaits])
            if course.beside:
                await wait_for(course.wake, min(look.again_in_s, self._shop.settings.recovery_every_s), clock)
            elif not look.ours:
                raise NotOurs(f"another worker drives saga {saga_id}")
            elif (wait := await self._wait(look.saga, look.again_in_s)) is None:
                return Turn(rests=True)
            elif wait > _SHORT_S:
                return self._later(course, wait, look.saga)
            else:
                await wait_for(course.wake, wait, clock)
        return self._later(course, 0.0)  # others go on at once

    async def _wait(self, saga: Saga, again_in_s: float) -> float | None:
        """Seconds until the next look; None: there is nothing to drive."""
        if duties(saga):
            return again_in_s if again_in_s < math.inf else _LOOK_S
        # Whoever lives and runs something says so when it ends; nobody else would.
        return _LOOK_S if saga.undoing or await self.rounds.orphaned(saga) else None

    async def _require_no_other(self, saga: Saga) -> None:
        parts = saga.step(saga.undoing).parts or () if saga.undoing else ()
        for part in parts:
            if part.running and not (await self._shop.life(part.owner)).is_gone and part.owner != self._shop.owners.me:
                raise NotOurs(f"an undo of step {saga.undoing} runs in process {part.owner}")

    def _later(self, course: Course, wait: float, saga: Saga | None = None) -> Turn:
        """The turn after this one, in `wait` seconds, with what is planned; only what still is due of a `saga`."""
        now = self._shop.clock.now()
        plan = course.not_before
        if saga is not None:
            undos = (duty for duty in duties(saga) if isinstance(duty, RunUndo))
            due = {(undo.step.number, undo.part.id, undo.part.tries) for undo in undos}
            plan = {slot: at for slot, at in plan.items() if slot in due}
        waits = {_name(slot): max(0.0, at - now) for slot, at in plan.items()}
        return Turn(rests=False, again_in_s=wait, waits=waits)


def _name(slot: Slot) -> str:
    step, part, tries = slot
    return f"{step}/{tries}/{part}"


def _slot(name: str) -> Slot:
    step, tries, part = name.split("/", 2)
    return int(step), part, int(tries)
