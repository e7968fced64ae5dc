"""Calls that a person has allowed, and questions that nobody answered (SEMANTICS.md S9.1).

The stored call is what runs, hours later and in whichever process drives the saga by then. Whoever asked for it was
told to wait, so nobody here waits for its answer: it is kept for the call that comes back for it.
"""

from __future__ import annotations

import structlog

from saga_mcp.domain.approvals import expire, give_up_allowed, is_expired
from saga_mcp.domain.errors import (
    CaptureFailed,
    LogConflict,
    LogUnavailable,
    Refused,
    ResourceHeld,
    SagaQuarantined,
    ToolPaused,
)
from saga_mcp.domain.state import Saga, Step
from saga_mcp.engine.forward import Forward
from saga_mcp.engine.place import tool_of
from saga_mcp.engine.ticket import Order, Ticket
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import SagaRow
from saga_mcp.tools.hidden import given
from saga_mcp.tools.pair import PairUnreadable
from saga_mcp.tools.port import Arguments
from saga_mcp.tools.unsent import InvalidArguments, UpstreamDown
from saga_tools import Retry

_log = structlog.get_logger(__name__)

_WAIT = Retry(first_delay_s=2.0, max_delay_s=10.0)
"""Before a call is tried again whose server is down, that is paused, or that finds taken what it works on: all of that
may last for hours."""
_LONGEST_TICK_S = 60.0
_TICKS = 100
"""In the time that a person has."""
_PAGE = 1000


class Allowed:
    """Sends what people have allowed."""

    def __init__(self, workshop: Workshop, forward: Forward) -> None:
        self._shop = workshop
        self._forward = forward
        self._waits: dict[tuple[str, int], int] = {}
        """How often each call has had to wait, by saga and step."""

    async def send(self, saga: Saga, number: int) -> None:
        """Send the stored call of a step; what cannot be sent any more ends as if it had never been asked for."""
        step = saga.step(number)
        waits = self._waits.pop((saga.id, number), 0) + 1
        try:
            order, args = await self._order(step)
            ticket = Ticket(saga_id=saga.id, number=number, args=args)
            await self._forward.run(order, ticket)
            if ticket.saga is None and ticket.error is not None:
                raise ticket.error
        except (UpstreamDown, ResourceHeld, ToolPaused) as wait:
            _log.info("allowed_call_waits", saga_id=saga.id, step=number, code=type(wait).__name__)
            self._waits[saga.id, number] = waits
            await self._shop.clock.sleep(_WAIT.delay_s(waits))
        except (CaptureFailed, PairUnreadable, _Unsendable) as error:
            reason = str(error)
            await self._shop.decide(saga.id, lambda now, driving: give_up_allowed(now, number, reason, driving))
        except Refused as refused:  # it is no step of an open saga any more
            _log.info("allowed_call_refused", saga_id=saga.id, step=number, code=refused.code)

    async def _order(self, step: Step) -> tuple[Order, Arguments | None]:
        """What is to be sent, and its arguments as the tool has read them, where that is what was allowed."""
        pair = await self._shop.pairs.of(step)
        tool, obstacle = tool_of(self._shop.catalogue, step, self._shop.settings.host)
        if tool is None:
            raise _Unsendable(obstacle)
        try:
            read = tool.decode(given(step.plan.args, pair))  # what it takes may have changed since
        except InvalidArguments as misfit:
            raise _Unsendable(f"its arguments do not fit any more: {'; '.join(misfit.problems)}") from misfit
        order = Order(tool=tool, pair=pair, plan=step.plan, allowed=step.number)
        return order, read if read.json == step.plan.args else None


class _Unsendable(Exception):
    """The stored call cannot be sent as it is."""


class Questions:
    """Ends the questions that nobody has answered in time."""

    def __init__(self, workshop: Workshop) -> None:
        self._shop = workshop

    async def watch(self) -> None:
        """Look for ever after."""
        tick_s = min(_LONGEST_TICK_S, self._shop.settings.approval_expires_s / _TICKS)
        while True:
            try:
                for row in await self._shop.log.sagas(self._shop.settings.realm, attention_only=True, limit=_PAGE):
                    await self._look(row)
            except LogUnavailable as error:
                _log.warning("log_unavailable", reason=str(error))
            except Exception:  # noqa: BLE001 - the watch goes on for ever
                _log.exception("question_watch_failed")
            await self._shop.clock.sleep(tick_s)

    async def _look(self, row: SagaRow) -> None:
        now = self._shop.clock.wall()
        try:
            saga = await self._shop.log.load(row.id)
            if any(is_expired(step, now) for step in saga.loose_steps):
                await self._shop.decide(row.id, lambda saga, driving: expire(saga, now, driving))
        except (SagaQuarantined, LogConflict) as error:
            _log.debug("question_not_looked_at", saga_id=row.id, reason=str(error))
