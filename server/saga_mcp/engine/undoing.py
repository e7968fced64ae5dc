"""Runs one undo part: intent, act, outcome; dead letters and what a person has to do (SEMANTICS.md S6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from saga_mcp.domain.duties import RunUndo
from saga_mcp.domain.errors import ToolPaused
from saga_mcp.domain.events import Event
from saga_mcp.domain.hosts import is_elsewhere
from saga_mcp.domain.rollback import next_undo
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.stranded import Attempt, attempt_of, attempts_of
from saga_mcp.domain.undo_decisions import (
    Parking,
    UndoMiss,
    undo_done,
    undo_goes_on,
    undo_intended,
    undo_lost,
    undo_missed,
    undo_overdue,
    undo_parked,
    undo_unneeded,
    undo_unsent,
)
from saga_mcp.domain.undo_events import Outage
from saga_mcp.domain.values import Effect, ItemKind, JsonObject, JsonValue, PartAction, PartState
from saga_mcp.engine.place import misplaced
from saga_mcp.engine.supervise import Limits, Supervised
from saga_mcp.engine.undo_policy import UndoPolicy, policy_of
from saga_mcp.engine.undo_probing import asked_by, context_of, entry_of, is_guarded
from saga_mcp.engine.witness import Witness
from saga_mcp.engine.workshop import Decider, Workshop
from saga_mcp.log.port import Decided
from saga_mcp.tools.binding import CannotBind
from saga_mcp.tools.looks import NotSeen, World, done_already, now_of
from saga_mcp.tools.pair import Pair, PairUnreadable, UndoEntry
from saga_mcp.tools.port import (
    AsksPerson,
    GivesUp,
    ReadFailed,
    UndoContext,
    Undoer,
    UndoMissed,
    Undone,
    UndoOutcome,
)
from saga_mcp.tools.undo_plan import fill_late
from saga_tools.server import UNDO_RETRY

_log = structlog.get_logger(__name__)

_CHANGED = "it was changed since the step: undoing it would overwrite that"

_LOST = "its connection was lost"

_REACHED_WITHIN_S = 24 * 3600.0
"""How long an undo waits for an upstream that is not reached; only time that a process watched (DESIGN.md 5.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """An undo part whose intent is stored, and that is to be called now."""

    saga: Saga
    number: int
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unreached:
    """What this process knows of an attempt that did not reach its upstream, by its own clock."""

    at: float
    again_at: float
    until_up: bool


class Undoing:
    """Runs undo parts, one after the other."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._witness = Witness(workshop, tasks)
        self._unreached: dict[tuple[str, int, str], _Unreached] = {}
        """By saga, step and part."""
        self._stopping = False

    def stop(self) -> None:
        """Begin no further part."""
        self._stopping = True

    async def policy(self, step: Step, part: Part) -> UndoPolicy:
        """Under which limits `part` is undone."""
        try:
            return policy_of(await self._shop.pairs.of(step), part)
        except PairUnreadable:  # nothing is sent
            return UndoPolicy(retry=UNDO_RETRY, timeout_s=0.0)

    async def run(self, saga: Saga, duty: RunUndo) -> None:
        """Do what is due for this part, append what became of it, and go on with the parts that follow."""
        number, part = duty.step.number, duty.part
        match part.spec.action:
            case PartAction.LEAVE | PartAction.NOTHING:
                answer = part.spec.message
                await self._shop.drive(saga.id, lambda now, d: undo_done(now, number, part.id, answer, d))
            case PartAction.MANUAL:
                parking = Parking(item=ItemKind.MANUAL_UNDO, message=part.spec.message, urgency=part.spec.urgency)
                await self._shop.drive(saga.id, lambda now, d: undo_parked(now, number, part.id, parking, d))
            case PartAction.CALL:
                await self._calls(saga, duty.step, part)

    async def _calls(self, saga: Saga, step: Step, part: Part) -> None:
        try:
            obstacle = self._obstacle(step, part, await self._shop.pairs.of(step))
        except PairUnreadable as unreadable:
            obstacle = Parking(item=ItemKind.DEAD_LETTER, message=str(unreadable))
        if obstacle is not None:
            await self._shop.drive(saga.id, lambda now, d: undo_parked(now, step.number, part.id, obstacle, d))
            return
        try:
            if await self._waits(saga, step, part) or await self._held_by_guard(saga, step, part):
                return
        except ToolPaused:
            return  # it stays due
        me = self._shop.owners.me
        with self._shop.in_hand.holding(saga.id):
            try:
                decided = await self._shop.decide(saga.id, lambda now, _: undo_intended(now, step.number, part.id, me))
            except ToolPaused:
                return  # it stays due
            sent = self._sent(decided)
            while sent is not None:
                sent = await self._call(sent)

    async def _waits(self, saga: Saga, step: Step, part: Part) -> bool:
        """Whether something that it asks is down; that is appended."""
        for each in await asked_by(self._shop, step, part):
            if (down := await each.reach()) is not None:
                break
        else:
            return False
        number, me = step.number, self._shop.owners.me
        miss, parking = self._missed(saga.id, number, part, down, await self.policy(step, part))
        await self._shop.decide(saga.id, lambda now, d: undo_unsent(now, number, part.id, me, miss, d, parking=parking))
        return True

    def again_in(self, saga_id: str, number: int, part: Part) -> float | None:
        """Seconds until a part is tried again that waits for an upstream; None: this process has not planned it."""
        planned = self._unreached.get((saga_id, number, part.id)) if part.outage else None
        return None if planned is None else max(0.0, planned.again_at - self._shop.clock.now())

    def until_up(self, saga_id: str, number: int, part: Part) -> bool:
        """Whether a part is to be tried as soon as what it waits for is up, as far as this process knows."""
        planned = self._unreached.get((saga_id, number, part.id))
        return part.outage is not None and (planned is None or planned.until_up)

    def _missed(
        self, saga_id: str, number: int, part: Part, missed: UndoMissed, policy: UndoPolicy
    ) -> tuple[UndoMiss, Parking | None]:
        """What is appended of an attempt that failed. One that did not reach its upstream costs time instead (S6.5)."""
        slot = (saga_id, number, part.id)
        found = self._unreached.pop(slot, None)
        if not missed.unreached:
            used_up = part.attempts >= policy.retry.attempts
            miss = UndoMiss(effect=missed.effect, error=missed.error)
            return miss, Parking(item=ItemKind.DEAD_LETTER, message=missed.error) if used_up else None
        clock = self._shop.clock
        now, wall = clock.now(), clock.wall()
        delay_s = clock.jitter(policy.retry.delay_s(part.tries + 1))
        self._unreached[slot] = _Unreached(at=now, again_at=now + delay_s, until_up=missed.until_up)
        before = part.outage or Outage(upstream=missed.unreached, since=wall, again_at=wall)
        if before.upstream != missed.unreached:
            before = replace(before, upstream=missed.unreached, since=wall)
        watched_s = 0.0 if found is None or part.outage is None else now - found.at
        outage = replace(before, again_at=wall + delay_s, waited_s=before.waited_s + watched_s)
        miss = UndoMiss(effect=missed.effect, error=missed.error, counted=False, outage=outage)
        if outage.waited_s < _REACHED_WITHIN_S:
            return miss, None
        message = f"{missed.error}; it was not reached for {_REACHED_WITHIN_S / 3600:g} h: see to that, then retry"
        return miss, Parking(item=ItemKind.DEAD_LETTER, message=message)

    async def _held_by_guard(self, saga: Saga, step: Step, part: Part) -> bool:
        """Whether the guard of the step says that nothing is to be sent now; what follows from that is appended."""
        pair = await self._shop.pairs.of(step)
        if not is_guarded(pair, step, part):
            return False
        number, me = step.number, self._shop.owners.me
        match await self._witness.world(saga, step, pair):
            case World.AS_LEFT:
                return False
            case World.AS_BEFORE:
                await self._shop.drive(saga.id, lambda now, d: undo_unneeded(now, number, d))
            case World.CHANGED:
                changed = Parking(item=ItemKind.GUARD_CONFLICT, message=_CHANGED)
                await self._shop.drive(saga.id, lambda now, d: undo_parked(now, number, part.id, changed, d))
            case NotSeen(reason=reason, unreached=unreached):
                error = f"what is there now could not be read: {reason}"
                missed = UndoMissed(error=error, effect=Effect.NONE, unreached=unreached)
                sent = replace(part, attempts=part.attempts + 1)
                miss, dead = self._missed(saga.id, number, sent, missed, policy_of(pair, part))
                await self._shop.decide(
                    saga.id, lambda now, d: undo_unsent(now, number, part.id, me, miss, d, parking=dead)
                )
        return True

    async def missing(self, step: Step, part: Part) -> str:
        """What this process would need to send the part, and has not got or has in another place; empty: nothing."""
        if part.spec.action is not PartAction.CALL:
            return ""
        try:
            misfit = self._misfit(step, part, await self._shop.pairs.of(step))
        except PairUnreadable:
            return ""
        return "" if misfit is None else misfit.message

    def _obstacle(self, step: Step, part: Part, pair: Pair) -> Parking | None:
        """Why the part is not sent at all."""
        misfit = self._misfit(step, part, pair)
        if misfit is None and part.attempts >= policy_of(pair, part).retry.attempts:
            return Parking(item=ItemKind.DEAD_LETTER, message=part.error or "the attempts are used up")
        return misfit

    def _misfit(self, step: Step, part: Part, pair: Pair) -> Parking | None:
        """Why the part cannot be sent by this process."""
        tool = self._shop.catalogue.tool(step.tool)
        undoer = self._shop.catalogue.undoer(part.spec.tool)
        if undoer is None:
            message = f"{part.spec.tool} is not available in this config: put it back, then retry"
            # Where neither of the pair is known, the place is: renamed, or not in this config any more.
            item = ItemKind.TARGET_CHANGED if tool is None else ItemKind.DEAD_LETTER
            return Parking(item=item, message=message)
        if tool is not None and tool.pair.target_id != step.plan.target_id:
            return Parking(item=ItemKind.TARGET_CHANGED, message=misplaced(step.tool))
        if undoer.target_id != _target(pair, step, part):
            return Parking(item=ItemKind.TARGET_CHANGED, message=misplaced(part.spec.tool))
        return None

    def _sent(self, decided: Decided) -> _Sent | None:
        """The part whose intent this decision stored."""
        saga = decided.saga
        if decided.before.seq == saga.seq or not saga.undoing:
            return None
        part = next((part for part in saga.step(saga.undoing).parts or () if part.state is PartState.INTENDED), None)
        if part is None or part.owner != self._shop.owners.me:
            return None
        return _Sent(saga=saga, number=saga.undoing, part=part)

    async def _call(self, sent: _Sent) -> _Sent | None:
        """Call one part; the part that follows, where its intent was stored together with this one's outcome."""
        saga, number, part = sent.saga, sent.number, sent.part
        step = saga.step(number)
        undoer = self._shop.catalogue.undoer(part.spec.tool)
        assert undoer is not None  # noqa: S101 - a missing undoer is an obstacle
        policy = await self.policy(step, part)
        entry = entry_of(await self._shop.pairs.of(step), part)
        context = context_of(self._shop, saga, step, part, entry)
        limits = Limits(
            timeout_s=policy.timeout_s,
            hard_deadline_s=policy.hard_deadline_s,
            stoppable=undoer.stoppable,
        )

        async def timed_out() -> None:
            await self._shop.record(saga.id, lambda now, _: undo_goes_on(now, number, part.id, "timeout"))

        async def overdue() -> None:
            """A thread cannot be stopped: nothing else is undone before it ends, or a person says that it did."""
            _log.error("undo_overdue", saga_id=saga.id, step=number, part=part.id, tool=part.spec.tool)
            await self._shop.record(saga.id, lambda now, _: undo_overdue(now, number, part.id))

        attempt = attempt_of(step, part)
        until = self._shop.clock.now() + policy.hard_deadline_s
        call = Supervised(lambda: self._send(undoer, part, entry, context), limits, self._shop.clock, self._tasks)
        with self._shop.in_hand.sending(saga.id, attempt):
            outcome = await call.run(on_timeout=timed_out, on_overdue=overdue)
            if isinstance(outcome, UndoMissed) and entry is not None and done_already(entry, outcome, context):
                outcome = Undone(answer=outcome.error)
            if isinstance(outcome, Undone):
                return self._sent(await self._done(saga.id, number, part, outcome.answer))
            end = self._outcome(saga.id, number, part, outcome, policy)
            lasts = isinstance(outcome, UndoMissed) and not outcome.end_known and part.spec.outlives_us
            if not lasts:
                return self._sent(await self._shop.record(saga.id, end))
            await self._shop.record(saga.id, lambda now, _: undo_goes_on(now, number, part.id, _LOST))
        await self._tasks.start(self._outlast, saga.id, attempt, until, end)
        return None

    async def _outlast(
        self,
        saga_id: str,
        attempt: Attempt,
        until: float,
        end: Decider,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Let an attempt elsewhere that will bring no answer count as running until then (S3.3).

        Beside the rollback, which asks meanwhile what became of it.
        """
        me = self._shop.owners.me
        try:
            with self._shop.in_hand.holding(saga_id), self._shop.in_hand.sending(saga_id, attempt):
                task_status.started()
                await self._shop.clock.sleep(until - self._shop.clock.now())
                await self._shop.record(
                    saga_id, lambda now, driving: end(now, driving) if attempt in attempts_of(now, me) else ()
                )
        except Exception:  # noqa: BLE001 - nothing that goes wrong with one undo may end the others
            _log.exception("undo_end_not_recorded", saga_id=saga_id, step=attempt.step)

    async def _send(self, undoer: Undoer, part: Part, entry: UndoEntry | None, context: UndoContext) -> UndoOutcome:
        """Call the undo with what only this moment knows."""
        read: JsonValue = None
        if entry is not None and entry.read is not None:
            answer = await self._shop.looks.read(entry.read, context, part.spec.item)
            if isinstance(answer, ReadFailed) or answer.is_error:
                error, unreached = (
                    (answer.reason, answer.unreached) if isinstance(answer, ReadFailed) else (answer.error, "")
                )
                return UndoMissed(error=f"{entry.read.tool}: {error}", effect=Effect.NONE, unreached=unreached)
            read = now_of(answer)
        try:
            filled = fill_late(part.spec, context, read)
        except CannotBind as unbound:
            return GivesUp(message=f"the undo cannot be built: {unbound}")
        return await _called(undoer, filled, context)

    async def _done(self, saga_id: str, number: int, part: Part, answer: str) -> Decided:
        """Record that a part is undone, together with the intent of what follows."""
        try:
            return await self._shop.record(
                saga_id, lambda now, d: undo_done(now, number, part.id, answer, d, follow=self._next_intent)
            )
        except ToolPaused:  # what follows; what is done is recorded all the same
            return await self._shop.record(saga_id, lambda now, d: undo_done(now, number, part.id, answer, d))

    def _outcome(
        self,
        saga_id: str,
        number: int,
        part: Part,
        outcome: UndoMissed | GivesUp | AsksPerson | None,
        policy: UndoPolicy,
    ) -> Decider:
        match outcome:
            case UndoMissed():
                miss, parking = self._missed(saga_id, number, part, outcome, policy)
            case GivesUp(message=message):
                miss = UndoMiss(effect=Effect.NONE, error=message)
                parking = Parking(item=ItemKind.DEAD_LETTER, message=message)
            case AsksPerson(message=message, urgency=urgency):
                miss = UndoMiss(effect=Effect.NONE, error=message)
                parking = Parking(item=ItemKind.MANUAL_UNDO, message=message, urgency=urgency)
            case None:
                return lambda now, d: undo_lost(now, number, part.id, "deadline", d)
        return lambda now, d: undo_missed(now, number, part.id, miss, d, parking=parking)

    def _next_intent(self, saga: Saga) -> tuple[Event, ...]:
        """The intent of the part that follows, for the same append as an outcome (DESIGN.md section 8)."""
        turn = next_undo(saga)
        if turn is None or turn.part.tries or turn.part.spec.action is not PartAction.CALL:
            return ()
        if is_elsewhere(turn.step, self._shop.settings.host):
            return ()
        if self._stopping or not self._shop.claimed or self._shop.otherwise:
            return ()
        try:
            obstacle = self._obstacle(turn.step, turn.part, self._shop.pairs.in_decision(turn.step))
        except PairUnreadable:
            return ()
        if obstacle is not None or turn.step.plan.guarded:  # a guard looks first, outside of the log
            return ()
        return undo_intended(saga, turn.step.number, turn.part.id, self._shop.owners.me)


def _target(pair: Pair, step: Step, part: Part) -> str:
    """Where the undo acted when it was frozen; what a call registers itself is of its own registry."""
    main = 0 <= part.spec.entry < len(pair.undo)
    return pair.undo[part.spec.entry].target_id if main else step.plan.target_id


async def _called(undoer: Undoer, args: JsonObject, context: UndoContext) -> UndoOutcome:
    """The undo's outcome, also where the adapter itself is at fault: then nothing is known."""
    try:
        return await undoer.undo(args, context)
    except Exception:  # noqa: BLE001 - see above
        _log.exception("undo_adapter_failed")
        return UndoMissed(error="internal error", effect=Effect.UNKNOWN, end_known=False)
