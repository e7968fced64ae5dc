"""Keeps a step that captures alone with what it works on, from before the capture to its end (SEMANTICS.md S5.3).

A row in the log's database, because it has to hold between processes, and before the step has any event. It may be
taken from a process that counts as gone and is not, so each intent under it is stored only while the row is there.
"""

from __future__ import annotations

import secrets

import anyio
import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.errors import LogUnavailable, ResourceHeld
from saga_mcp.engine.appending import STORE_AGAIN
from saga_mcp.engine.ticket import Order, Ticket
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import StepLock
from saga_mcp.tools.looks import lock_name

_log = structlog.get_logger(__name__)


class StepLocks:
    """The locks that steps of this process have, or want."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks

    async def take(self, order: Order, ticket: Ticket) -> bool:
        """Lock what the call works on; False: another step of this saga had it, and something has changed since.

        Raises:
            ResourceHeld: another saga's step has it, or this saga's had it for too long; or another saga holds it.
            CaptureFailed: what it works on cannot be told.
        """
        name = lock_name(order.pair, order.plan, ticket.saga_id)
        if not name:
            return True
        wanted = StepLock(
            realm=self._shop.settings.realm,
            name=name,
            saga_id=ticket.saga_id,
            owner=self._shop.owners.me,
            token=secrets.token_hex(8),
        )
        holder = await self._shop.log.take_lock(wanted)
        if holder.token != wanted.token and (await self._shop.life(holder.owner)).is_gone:
            holder = await self._shop.log.take_lock(wanted, over=holder)
        if holder.token == wanted.token:
            ticket.lock = wanted
            await self._refuse_if_held(order, ticket)
            return True
        if holder.saga_id != ticket.saga_id or ticket.given_up:
            raise ResourceHeld(order.pair.tool, holder.saga_id)
        with anyio.CancelScope() as ticket.queue:
            ticket.seen = await self._shop.log.wait_for_change(ticket.seen)
        ticket.queue = None
        return False

    async def _refuse_if_held(self, order: Order, ticket: Ticket) -> None:
        """Refuse before anything is read that the undo of another saga may still change.

        Under the lock, so that no further step gets in between this look and the intent, which takes hold of it.
        """
        resource = order.plan.resource
        holder = await self._shop.log.holder(self._shop.settings.realm, resource) if resource else None
        if holder is not None and holder.saga_id != ticket.saga_id:
            raise ResourceHeld(order.pair.tool, holder.saga_id, resource, waits=holder.waits)

    async def drop(self, ticket: Ticket) -> None:
        """Give back what a ticket has locked; where the log cannot be written, as soon as it can."""
        lock, ticket.lock = ticket.lock, None
        if lock is None:
            return
        try:
            await self._shop.log.drop_lock(lock)
        except LogUnavailable:
            self._tasks.start_soon(self._drop_later, lock)

    async def _drop_later(self, lock: StepLock) -> None:
        times = 0
        while True:
            times += 1
            await self._shop.clock.sleep(STORE_AGAIN.delay_s(times))
            try:
                await self._shop.log.drop_lock(lock)
            except LogUnavailable as error:
                _log.warning("lock_waits_for_the_log", saga_id=lock.saga_id, times=times, reason=str(error))
            else:
                return
