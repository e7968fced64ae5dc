"""Runs forward actions: act, outcome; retries, time limits and late answers (SEMANTICS.md S3, S4).

Each step runs in a task of the engine. The request that asked for it holds a `Ticket` and only waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.duties import duties
from saga_mcp.domain.errors import LogConflict, LogUnavailable, ToolPaused
from saga_mcp.domain.events import PartSpec, ReplyLost, UndoRegistered
from saga_mcp.domain.hiding import NOT_STORED, Hiding
from saga_mcp.domain.repeats import (
    Asked,
    Join,
    NewStep,
    Replay,
    SendAgain,
    Unknown,
    is_awaited,
)
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import (
    Miss,
    abort_after_wait,
    give_up_retriable,
    goes_on,
    is_observed,
    landed,
    missed,
    overdue,
    run_lost,
    send_again,
)
from saga_mcp.domain.stranded import Attempt
from saga_mcp.domain.values import Effect, Phase, StepState
from saga_mcp.engine.intents import Intents
from saga_mcp.engine.locks import StepLocks
from saga_mcp.engine.place import tool_of
from saga_mcp.engine.port import SagaDriver
from saga_mcp.engine.sealing import stored, with_secrets
from saga_mcp.engine.supervise import Limits, Supervised, outcome_of, wait_for
from saga_mcp.engine.ticket import AllowedCall, AskingCall, Call, Order, Ticket
from saga_mcp.engine.witness import Witness
from saga_mcp.engine.workshop import Decider, Workshop
from saga_mcp.tools.hidden import with_key
from saga_mcp.tools.looks import resource_of
from saga_mcp.tools.pair import Pair, PairUnreadable
from saga_mcp.tools.port import Arguments, CallContext, Landed, Lost, Missed, Outcome, RegisterUndo, Tool
from saga_mcp.tools.unsent import Unsent

_log = structlog.get_logger(__name__)

_PAUSED_S = 2.0
"""Between two looks whether a call may go out by now."""


class Forward:
    """Runs the steps of this process."""

    def __init__(self, workshop: Workshop, driver: SagaDriver, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._driver = driver
        self._tasks = tasks
        self._locks = StepLocks(workshop, tasks)
        self._witness = Witness(workshop, tasks)
        self._intents = Intents(workshop, self._locks, self._witness)
        self._stopping = anyio.Event()
        self._in_hand: dict[tuple[str, int], Ticket] = {}
        """Steps that a task here sends, and sends again."""

    def stop(self) -> None:
        """Send nothing again: what is between two attempts is settled by whoever comes next."""
        self._stopping.set()

    async def run(self, order: Order, ticket: Ticket) -> None:
        """Do the whole step. What the log refused, or the tool did, stands on the ticket."""
        try:
            resource = resource_of(order.pair, order.plan.args, ticket.saga_id)
            order = replace(order, plan=replace(order.plan, resource=resource)) if resource else order
            decided, call = await self._intents.store(order, ticket)
        except Exception as error:  # noqa: BLE001 - the waiting request raises it
            ticket.error = error
            await self._let_go(ticket)
            return
        finally:
            ticket.decided.set()
        ticket.saga = decided.saga
        ticket.was_idle = decided.before.idle
        ticket.number = len(decided.saga.steps) if isinstance(call, NewStep | AskingCall) else call.number
        ticket.repeats = not isinstance(call, NewStep | AskingCall)
        await self._guarded(ticket, lambda: self._carry_out(order, ticket, call))

    async def _let_go(self, ticket: Ticket) -> None:
        try:
            await self._locks.drop(ticket)  # before anybody is answered, who may go on with the same thing
        finally:
            ticket.known.set()

    async def _carry_out(self, order: Order, ticket: Ticket, call: Call) -> None:
        match call:
            case NewStep() | SendAgain() | AllowedCall():
                await self._attempts(order.tool, order.pair, ticket)
            case Join():
                await self._locks.drop(ticket)
                await self._join(order.tool, ticket)
            case Replay():
                self._replay(order.tool, ticket)
            case AskingCall() | Asked() | Unknown():
                pass

    async def _join(self, tool: Tool, ticket: Ticket) -> None:
        """Wait for the answer of the call that this one repeats, whichever process has it."""
        ticket.behind = True
        in_hand = self._in_hand.get((ticket.saga_id, ticket.number))
        if in_hand is not None:
            in_hand.reports += ticket.reports
            await in_hand.known.wait()
            ticket.saga, ticket.answer, ticket.unsent = in_hand.saga, in_hand.answer, in_hand.unsent
            ticket.replayed = ticket.answer is not None and not ticket.answer.is_error
            return
        seen = 0
        while ticket.saga is None or is_awaited(ticket.saga.step(ticket.number)):
            seen = await self._shop.log.wait_for_change(seen)
            ticket.saga = await self._shop.log.load(ticket.saga_id)
        if ticket.saga.step(ticket.number).landed:
            self._replay(tool, ticket)

    def _replay(self, tool: Tool, ticket: Ticket) -> None:
        assert ticket.saga is not None  # noqa: S101 - set with the decision
        step = ticket.saga.step(ticket.number)
        ticket.answer = tool.replay(step.result, step.kept)
        ticket.replayed = True

    async def _guarded(self, ticket: Ticket, work: Callable[[], Awaitable[None]]) -> None:
        """Nothing that goes wrong with one step may end the others."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the waiting request raises it
            _log.exception("step_failed_inside", saga_id=ticket.saga_id, step=ticket.number)
            ticket.error = error
        finally:
            await self._let_go(ticket)

    async def record_lost(self, ticket: Ticket) -> bool:
        """Store that the caller did not get the step's answer, once there is a step; whether that is done (S8.1)."""
        await ticket.known.wait()
        if ticket.number and ticket.error is None:
            await self._guarded(ticket, lambda: self._store_lost(ticket))
        return not ticket.number or ticket.error is None

    async def _store_lost(self, ticket: Ticket) -> None:
        number = ticket.number
        await self._shop.record(
            ticket.saga_id,
            lambda saga, _: () if saga.step(number).reply_lost else (ReplyLost(step=number),),
        )

    async def resend(self, saga: Saga, number: int) -> None:
        """Send a retriable step again with the same key; a person is asked when its attempts are used up (S7.2).

        A step that is in hand here already is sent again by the task that has it: this only waits for that.
        """
        in_hand = self._in_hand.get((saga.id, number))
        if in_hand is not None:
            await in_hand.ended.wait()
            return
        step = saga.step(number)
        try:
            pair = await self._shop.pairs.of(step)
        except PairUnreadable as unreadable:
            reason = str(unreadable)
            await self._shop.drive(saga.id, lambda now, _: give_up_retriable(now, number, reason))
            return
        tool, obstacle = tool_of(self._shop.catalogue, step, self._shop.settings.host)
        if tool is None or step.attempts >= pair.retry.attempts:
            error = obstacle or step.error
            await self._shop.drive(saga.id, lambda now, _: give_up_retriable(now, number, error))
            return
        ticket = Ticket(saga_id=saga.id, number=number, saga=saga)
        with self._shop.in_hand.holding(saga.id):
            if await self._next_attempt(ticket, pair):
                await self._attempts(tool, pair, ticket)

    async def _attempts(self, tool: Tool, pair: Pair, ticket: Ticket) -> None:
        slot = (ticket.saga_id, ticket.number)
        self._in_hand[slot] = ticket
        try:
            with self._shop.in_hand.holding(ticket.saga_id):  # without a gap after the intent: no task runs in between
                await self._attempts_in_hand(tool, pair, ticket)
        finally:
            del self._in_hand[slot]
            ticket.ended.set()
            await self._let_go(ticket)

    async def _attempts_in_hand(self, tool: Tool, pair: Pair, ticket: Ticket) -> None:
        while True:
            await self._attempt(tool, pair, ticket)
            step = ticket.saga.step(ticket.number) if ticket.saga is not None else None
            between = step is not None and step.state is StepState.INTENDED and not step.running and not step.exhausted
            if not between or not await self._next_attempt(ticket, pair):
                break
        if step is not None and is_observed(step) and ticket.saga is not None:
            seen = await self._witness.after(ticket.saga, ticket.number, pair, text=ticket.text, exact=ticket.exact)
            await self._observe(ticket, seen)

    async def _next_attempt(self, ticket: Ticket, pair: Pair) -> bool:
        made = ticket.saga.step(ticket.number).attempts if ticket.saga is not None else 1
        delay_s = self._shop.clock.jitter(pair.retry.delay_s(max(made, 1)))
        number, me = ticket.number, self._shop.owners.me
        while not await wait_for(self._stopping, delay_s, self._shop.clock) and not self._shop.claim_lost:
            delay_s = _PAUSED_S
            try:
                # Nothing is sent before this is stored; given up, the step would stay between attempts for ever.
                decided = await self._shop.decide(ticket.saga_id, lambda saga, _: send_again(saga, number, me))
            except (ToolPaused, LogUnavailable, LogConflict) as error:
                _log.info("attempt_waits", saga_id=ticket.saga_id, step=number, reason=str(error))
            else:
                ticket.saga = decided.saga
                return decided.before.seq != decided.saga.seq
        return False

    async def _attempt(self, tool: Tool, pair: Pair, ticket: Ticket) -> None:
        saga = ticket.saga
        assert saga is not None  # noqa: S101 - set with the intent
        step = saga.step(ticket.number)
        context = CallContext(
            saga_id=saga.id,
            number=step.number,
            key=saga.key_of(step.number),
            attempt=step.attempts,
            register_undo=self._registrar(ticket),
            rules=pair.rules,
            report=ticket.reporting(),
        )
        limits = Limits(timeout_s=pair.timeout_s, hard_deadline_s=pair.hard_deadline_s, stoppable=tool.stoppable)
        args, ticket.args = ticket.args or Arguments({**step.plan.args, **ticket.sealed}), None
        if pair.key_arg:
            args = Arguments(with_key(args.json, pair, context.key))
        began = self._shop.clock.now()
        call = Supervised(lambda: outcome_of(tool, args, context), limits, self._shop.clock, self._tasks)
        with self._shop.in_hand.sending(saga.id, Attempt(step.number, step.attempts)):
            outcome = await call.run(
                on_timeout=lambda: self._in_doubt(ticket, "timeout"),
                on_overdue=lambda: self._observe(ticket, lambda saga, driving: overdue(saga, ticket.number, driving)),
            )
            elsewhere = isinstance(outcome, Lost) and not outcome.end_known and step.plan.outlives_us
            if not elsewhere or await self._outlasted(ticket, began + pair.hard_deadline_s):
                await self._record(ticket, pair, outcome)

    async def _record(self, ticket: Ticket, pair: Pair, outcome: Outcome | None) -> None:
        number, hiding = ticket.number, Hiding(ticket.sealed.values(), NOT_STORED)
        more = ticket.saga is not None and ticket.saga.step(number).attempts < pair.retry.attempts
        ticket.sent = ticket.sent or not isinstance(outcome, Unsent)
        ticket.unsent = outcome.reason if isinstance(outcome, Unsent) and not ticket.sent else ""
        match outcome:
            case Landed(answer=answer, exact=exact) as found:
                ticket.answer, ticket.text, ticket.exact = answer, answer.text, exact
                await self._observe(
                    ticket,
                    lambda saga, driving: landed(
                        saga,
                        number,
                        stored(self._shop.landing(saga, number, found, text=answer.text), hiding),
                        driving,
                    ),
                )
            case Missed(answer=answer, effect=effect, error=error):
                ticket.answer = answer
                await self._miss(ticket, Miss(effect=effect, error=hiding.text(error), more=more))
            case Unsent(reason=reason):
                miss = Miss(effect=Effect.NONE, error=hiding.text(reason), more=more, sent=ticket.sent)
                await self._miss(ticket, miss)
            case Lost() | None:  # None: it was stopped at its hard deadline
                gone = outcome or Lost(reason="deadline", end_known=True)
                if gone.end_known and pair.idempotent:  # an attempt of unknown effect like any other (S3.2)
                    await self._miss(ticket, Miss(effect=Effect.UNKNOWN, error=gone.reason, more=more))
                    return
                await self._observe(
                    ticket,
                    lambda saga, driving: run_lost(
                        saga, number, reason=gone.reason, end_known=gone.end_known, driving=driving
                    ),
                )

    async def _miss(self, ticket: Ticket, miss: Miss) -> None:
        await self._observe(ticket, lambda saga, driving: missed(saga, ticket.number, miss, driving))

    async def _outlasted(self, ticket: Ticket, until: float) -> bool:
        """Let a call elsewhere that will bring no answer count as running until then (S3.3).

        False: nothing is left to record about it here.
        """
        if not ticket.known.is_set():  # else its time limit came first
            await self._in_doubt(ticket, "its connection was lost")
        while (left := until - self._shop.clock.now()) > 0:
            if await wait_for(self._stopping, min(left, self._shop.settings.recovery_every_s), self._shop.clock):
                return False  # whoever comes next goes on waiting
            saga = await self._shop.log.load(ticket.saga_id)
            if not saga.step(ticket.number).running:
                ticket.saga = saga
                return False
        return True

    async def _in_doubt(self, ticket: Ticket, reason: str) -> None:
        await self._observe(ticket, lambda saga, driving: goes_on(saga, ticket.number, reason=reason, driving=driving))
        ticket.known.set()
        # The policy's abort comes later, unless an answer does (S4.2); waiting for it must not hold up that answer.
        self._tasks.start_soon(self._guarded, ticket, lambda: self._abort_later(ticket))

    async def _abort_later(self, ticket: Ticket) -> None:
        await self._shop.clock.sleep(self._shop.settings.probe_for_s)
        await self._observe(ticket, lambda saga, driving: abort_after_wait(saga, ticket.number, driving))

    async def _observe(self, ticket: Ticket, decider: Decider) -> None:
        ticket.behind = True
        decided = await self._shop.record(ticket.saga_id, decider)
        ticket.saga, ticket.behind = decided.saga, False
        if decided.saga.phase is Phase.COMPENSATING or duties(decided.saga):
            await self._driver.wake(ticket.saga_id)

    def _registrar(self, ticket: Ticket) -> RegisterUndo:
        async def register(part: PartSpec) -> None:
            registered = UndoRegistered(step=ticket.number, part=with_secrets(part, ticket.sealed))
            await self._shop.decide(ticket.saga_id, lambda _saga, _driving: (registered,))

        return register
