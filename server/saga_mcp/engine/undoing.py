"""Runs one undo part: intent, act, outcome; dead letters and what a person has to do (SEMANTICS.md S6)."""

from __future__ import annotations

from dataclasses import dataclass

from saga_mcp.domain.duties import ProbeUndo, RunUndo
from saga_mcp.domain.ids import undo_key
from saga_mcp.domain.saga_decisions import describe_cause
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.undo_decisions import (
    Parking,
    UndoMiss,
    undo_done,
    undo_intended,
    undo_lost,
    undo_missed,
    undo_parked,
    undo_probed,
    undo_timed_out,
)
from saga_mcp.domain.undo_parts import part_of
from saga_mcp.domain.values import Effect, ItemKind, PartAction
from saga_mcp.engine.supervise import Limits, Supervised
from saga_mcp.engine.workshop import Workshop
from saga_mcp.tools.pair import Retry
from saga_mcp.tools.port import AsksPerson, GivesUp, UndoContext, Undoer, UndoMissed, Undone, UndoOutcome

_DEADLINE_FACTOR = 10
"""An undo's hard deadline, in time limits (DESIGN.md 5.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPolicy:
    """Under which limits a part is undone: those of its frozen entry, or of the undo a call registered itself."""

    retry: Retry
    timeout_s: float


class Undoing:
    """Runs the undo part whose turn it is."""

    def __init__(self, workshop: Workshop) -> None:
        self._shop = workshop

    async def policy(self, step: Step, part: Part) -> UndoPolicy:
        """Under which limits `part` is undone."""
        pair = await self._shop.pair(step)
        registered_by_call = part.spec.entry < 0
        undoer = self._shop.catalogue.undoer(part.spec.tool) if registered_by_call else None
        if undoer is not None:
            return UndoPolicy(retry=undoer.retry, timeout_s=undoer.timeout_s)
        if registered_by_call or part.spec.entry >= len(pair.undo):
            return UndoPolicy(retry=Retry(), timeout_s=pair.timeout_s)
        entry = pair.undo[part.spec.entry]
        return UndoPolicy(retry=entry.retry, timeout_s=entry.timeout_s)

    async def run(self, saga: Saga, duty: RunUndo) -> None:
        """Do what is due for this part, and append what became of it."""
        number, part = duty.step.number, duty.part
        match part.spec.action:
            case PartAction.LEAVE | PartAction.NOTHING:
                answer = part.spec.message
                await self._shop.decide(saga.id, lambda now, d: undo_done(now, number, part.id, answer, d))
            case PartAction.MANUAL:
                parking = Parking(item=ItemKind.MANUAL_UNDO, message=part.spec.message, urgency=part.spec.urgency)
                await self._shop.decide(saga.id, lambda now, d: undo_parked(now, number, part.id, parking, d))
            case PartAction.CALL:
                await self._call(saga, duty.step, part)

    async def _call(self, saga: Saga, step: Step, part: Part) -> None:
        policy = await self.policy(step, part)
        undoer = self._shop.catalogue.undoer(part.spec.tool)
        obstacle = self._obstacle(step, part, undoer, policy)
        if obstacle is not None:
            await self._shop.decide(saga.id, lambda now, d: undo_parked(now, step.number, part.id, obstacle, d))
            return
        assert undoer is not None  # noqa: S101 - a missing undoer is an obstacle
        me = self._shop.owners.me
        decided = await self._shop.decide(saga.id, lambda now, _: undo_intended(now, step.number, part.id, me))
        if decided.before.seq == decided.saga.seq:
            return
        await self._act(decided.saga, step.number, part.id, undoer, policy)

    def _obstacle(self, step: Step, part: Part, undoer: Undoer | None, policy: UndoPolicy) -> Parking | None:
        """Why the part is not sent at all."""
        if undoer is None:
            message = f"{part.spec.tool} is not available in this config: put it back, then retry"
            return Parking(item=ItemKind.DEAD_LETTER, message=message)
        tool = self._shop.catalogue.tool(step.tool)
        if tool is not None and tool.pair.target_id != step.plan.target_id:
            message = f"{step.tool} now points to another place than the one where the step was done"
            return Parking(item=ItemKind.TARGET_CHANGED, message=message)
        if part.attempts >= policy.retry.attempts:
            return Parking(item=ItemKind.DEAD_LETTER, message=part.error or "the attempts are used up")
        return None

    async def _act(self, saga: Saga, number: int, part_id: str, undoer: Undoer, policy: UndoPolicy) -> None:
        step = saga.step(number)
        part = part_of(step, part_id)
        assert part is not None  # noqa: S101 - it was just recorded as sent
        context = UndoContext(
            step=self._shop.known_facts(saga, step),
            undo_key=undo_key(self._shop.key(saga, number), part.id, part.generation),
            cause=describe_cause(saga),
        )
        limits = Limits(
            timeout_s=policy.timeout_s,
            hard_deadline_s=policy.timeout_s * _DEADLINE_FACTOR,
            stoppable=undoer.stoppable,
        )

        async def timed_out() -> None:
            await self._shop.decide(saga.id, lambda now, _: undo_timed_out(now, number, part_id))

        async def overdue() -> None:
            """A thread cannot be stopped: the part stays running, and nothing else is undone before it ends."""

        call = Supervised(lambda: undoer.undo(part.spec.args, context), limits, self._shop.clock)
        outcome = await call.run(on_timeout=timed_out, on_overdue=overdue)
        await self._record(saga.id, number, part, outcome, policy)

    async def _record(
        self, saga_id: str, number: int, part: Part, outcome: UndoOutcome | None, policy: UndoPolicy
    ) -> None:
        match outcome:
            case Undone(answer=answer):
                await self._shop.decide(saga_id, lambda now, d: undo_done(now, number, part.id, answer, d))
            case UndoMissed():
                miss = UndoMiss(effect=outcome.effect, error=outcome.error, counted=outcome.counted)
                used_up = outcome.counted and part.attempts >= policy.retry.attempts
                parking = Parking(item=ItemKind.DEAD_LETTER, message=outcome.error) if used_up else None
                await self._missed(saga_id, number, part.id, miss, parking)
            case GivesUp(message=message):
                await self._known_not_done(
                    saga_id, number, part.id, Parking(item=ItemKind.DEAD_LETTER, message=message)
                )
            case AsksPerson(message=message, urgency=urgency):
                parking = Parking(item=ItemKind.MANUAL_UNDO, message=message, urgency=urgency)
                await self._known_not_done(saga_id, number, part.id, parking)
            case None:
                await self._shop.decide(saga_id, lambda now, d: undo_lost(now, number, part.id, "deadline", d))

    async def _known_not_done(self, saga_id: str, number: int, part_id: str, parking: Parking) -> None:
        await self._missed(saga_id, number, part_id, UndoMiss(effect=Effect.NONE, error=parking.message), parking)

    async def _missed(self, saga_id: str, number: int, part_id: str, miss: UndoMiss, parking: Parking | None) -> None:
        await self._shop.decide(saga_id, lambda now, d: undo_missed(now, number, part_id, miss, d, parking=parking))

    async def probe(self, saga: Saga, duty: ProbeUndo) -> None:
        """Ask whether an in-doubt undo took effect (S6.4). No pair has such a probe yet: a person is asked."""
        await self._shop.decide(
            saga.id, lambda now, d: undo_probed(now, duty.step.number, duty.part.id, done=None, driving=d)
        )
