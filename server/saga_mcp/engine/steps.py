"""A request's side of a step: it orders it, waits for it, and follows what becomes of its reply (DESIGN rule 6, S8.1).

Apart from `forward`, which does the step in a task of its own whether or not anybody waits for it.
"""

from __future__ import annotations

from functools import partial

import anyio
from anyio.abc import TaskGroup

from saga_mcp.domain.errors import LimitReached, ToolPaused
from saga_mcp.domain.pausing import is_allowed
from saga_mcp.domain.repeats import is_asked
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase
from saga_mcp.engine.delivery import Delivery
from saga_mcp.engine.forward import Forward
from saga_mcp.engine.port import Caller, CallReply, Receipt, SagaDriver
from saga_mcp.engine.ticket import Order, Ticket
from saga_mcp.engine.unproved import Unproved
from saga_mcp.engine.waiting import settled
from saga_mcp.engine.workshop import Workshop
from saga_mcp.tools.port import Arguments


class Steps:
    """The steps that requests of this process wait for."""

    def __init__(
        self, workshop: Workshop, driver: SagaDriver, forward: Forward, delivery: Delivery, tasks: TaskGroup
    ) -> None:
        self._shop = workshop
        self._driver = driver
        self._forward = forward
        self._delivery = delivery
        self._tasks = tasks
        self._running: dict[Ticket, str] = {}
        """Whose each is."""
        self._idle = anyio.Event()

    async def ended(self) -> None:
        """Return when no step runs here."""
        while self._running:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def run(
        self,
        order: Order,
        args: Arguments,
        saga_id: str,
        caller: Caller,
        receipt: Receipt | None,
        *,
        within_s: float,
    ) -> CallReply:
        """Have a step run, and wait for its outcome.

        Args:
            order: what is to run.
            args: its arguments as the tool decoded them.
            saga_id: in which saga.
            caller: is told how far it has come, if that was asked for.
            receipt: is told what to do once the reply is written, or lost; without one it counts as sent at once.
            within_s: how long a reply may take, in seconds.
        """
        secrets = {name: args.json[name] for name in order.plan.sealed}
        if caller.remote:
            self._require_room(caller)
        ticket = Ticket(
            saga_id=saga_id,
            caller=caller.id,
            args=args,
            sealed=secrets,
            arrival=self._delivery.arrived(saga_id, caller.id),
            unproved=Unproved(self._shop, saga_id) if caller.remote else None,
        )
        if caller.report is not None:
            ticket.reports.append(caller.report)
        deadline = self._shop.clock.now() + within_s
        self._delivery.expect(ticket)
        self._start(order, ticket, caller)
        try:
            await ticket.wait(within_s, self._shop.clock)
            reply = await self._reply(ticket, deadline)
        except anyio.get_cancelled_exc_class():
            ticket.give_up()
            self._lose(ticket, order)
            raise
        except BaseException:
            self._delivery.refused(ticket)
            raise
        if reply.code == "approval_needed":
            self._delivery.refused(ticket)
        elif reply.answer is None and not reply.unsent:
            self._lose(ticket, order)
        else:
            self._delivery.leaves(ticket)
            sent = partial(self._delivery.sent, ticket, reply.saga.seq if reply.saga is not None else 0)
            if receipt is None:
                sent()
            else:
                receipt.follow(sent, partial(self._lose, ticket, order))
        return reply

    def _lose(self, ticket: Ticket, order: Order) -> None:
        """The caller does not get this step's answer: an equal call will be told it (S8.1)."""
        self._delivery.lost(ticket, order)
        if not self._tasks.cancel_scope.cancel_called:  # else there is nobody left to record it, as after a kill
            self._tasks.start_soon(self._record_lost, ticket)

    async def _record_lost(self, ticket: Ticket) -> None:
        if await self._forward.record_lost(ticket):
            self._delivery.recorded(ticket)

    async def _require_not_paused(self, saga: Saga, number: int) -> None:
        """Refuse to let a caller wait for an allowed call that a pause holds up.

        Raises:
            ToolPaused: it does.
        """
        step = saga.find_step(number)
        if step is not None and is_allowed(step):
            held = (await self._shop.log.paused(saga.realm)).get(step.tool)
            if held is not None:
                raise ToolPaused(step.tool, held.by, held.note)

    def _require_room(self, caller: Caller) -> None:
        """Refuse a call of whom too many run here already, whether or not anybody still waits for those.

        Raises:
            LimitReached: they do.
        """
        most = self._shop.settings.running_steps
        if most and sum(caller.id == other for other in self._running.values()) >= most:
            what = f"{most} calls of yours are running already, which is the limit"
            raise LimitReached(what, "Wait until one has ended, then make this call again.")

    def _start(self, order: Order, ticket: Ticket, caller: Caller) -> None:
        async def run() -> None:
            try:
                await self._forward.run(order, ticket)
            finally:
                del self._running[ticket]
                if not self._running:
                    self._idle.set()

        self._running[ticket] = caller.id
        self._tasks.start_soon(run)

    async def _reply(self, ticket: Ticket, deadline: float) -> CallReply:
        saga = ticket.saga
        if ticket.error is not None:
            if saga is None:
                raise ticket.error
            # The call was sent, and what came of it could not be stored.
            return CallReply(code="outcome_unknown", saga_id=saga.id, saga=saga, step=ticket.number)
        if saga is None:
            ticket.withdraw()  # raises, unless the log is taking the intent just now, or does not say whether it has
            return CallReply(code="still_running", saga_id=ticket.saga_id)
        if not ticket.known.is_set():
            await self._require_not_paused(saga, ticket.number)
            return CallReply(code="still_running", saga_id=saga.id, saga=saga, step=ticket.number)
        if saga.phase is Phase.COMPENSATING:
            saga = await settled(saga, deadline, self._shop, self._driver)
        step = saga.step(ticket.number)
        if is_asked(step):
            return CallReply(
                code="approval_needed", saga_id=saga.id, saga=saga, step=step.number, was_idle=ticket.was_idle
            )
        in_doubt = not step.settled and step.landed is None
        if ticket.unsent and step.landed is False:
            return CallReply(
                code="upstream_down",
                unsent=ticket.unsent,
                saga_id=saga.id,
                saga=saga,
                step=ticket.number,
                was_idle=ticket.was_idle,
            )
        succeeded = ticket.answer is not None and not ticket.answer.is_error and step.landed is True  # see failed_when
        code = "" if succeeded else "outcome_unknown" if in_doubt else "step_failed"
        return CallReply(
            answer=ticket.answer,
            code=code,
            saga_id=saga.id,
            saga=saga,
            step=ticket.number,
            replayed=ticket.replayed,
            was_idle=ticket.was_idle,
        )
