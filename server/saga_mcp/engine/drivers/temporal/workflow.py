"""The workflow: turns at a saga, and durable timers between them, until there is nothing to drive (SEMANTICS.md S12.3).

It decides nothing about the saga and knows nothing of it: state and fence are the saga log. What is here must replay:
`tests/temporal/histories` holds runs of earlier versions, and a change that does not fit them needs `workflow.patched`.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from saga_mcp.engine.drivers.temporal.messages import ACTIVITY, WAKE, WORKFLOW, Order, Turn, queue_on

_TURN_TAKES_AT_MOST: Final = timedelta(hours=1)
"""Longer than an undo may take, as a rule. A turn that is cut off goes on in its worker, and is fenced by the log."""
_HEARTBEAT: Final = timedelta(seconds=5)
"""A worker that is not heard of for so long is given up, and another one takes its turn."""
_AGAIN: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
_ONE_IS_WAITED_FOR: Final = timedelta(minutes=10)
"""Then any worker looks whether it is still so."""
_EACH_IS_WAITED_FOR: Final = timedelta(seconds=30)
"""Where several machines could go on: each gets the turn for so long."""
_GRACE: Final = timedelta(seconds=5)
_TURNS_IN_A_RUN: Final = 200
"""Far below what Temporal allows a history to hold."""


@workflow.defn(name=WORKFLOW)
class DriveSaga:
    """Drives one saga to rest."""

    def __init__(self) -> None:
        self._wakes = 0

    @workflow.signal(name=WAKE)
    def wake(self) -> None:
        """Something is due, or may be."""
        self._wakes += 1

    @workflow.run
    async def run(self, order: Order) -> None:
        """Take turns until one finds nothing to drive, and nobody has said since that there is something."""
        waits = order.waits
        hosts: list[str] = []
        for _ in range(_TURNS_IN_A_RUN):
            seen = self._wakes
            now = Order(order.realm, order.saga_id, waits)
            turn = await self._turn_on(hosts, now, seen) if hosts else await self._turn(now)
            hosts = turn.hosts if self._wakes == seen else []  # what was said meanwhile, any worker looks at first
            if turn.hosts:
                waits = turn.waits
            elif self._wakes == seen:
                if turn.rests:
                    return
                began = workflow.time()
                await self._woken(seen, turn.again_in_s)
                slept = workflow.time() - began
                waits = {slot: max(0.0, wait - slept) for slot, wait in turn.waits.items()}
            else:
                waits = turn.waits
            if workflow.info().is_continue_as_new_suggested():
                break
        # Signals that came meanwhile lose nothing: the next run begins with a turn.
        workflow.continue_as_new(Order(order.realm, order.saga_id, waits))

    async def _turn(self, order: Order) -> Turn:
        turn: Turn = await workflow.execute_activity(
            ACTIVITY,
            order,
            result_type=Turn,
            start_to_close_timeout=_TURN_TAKES_AT_MOST,
            heartbeat_timeout=_HEARTBEAT,
            retry_policy=_AGAIN,
        )
        return turn

    async def _turn_on(self, hosts: list[str], order: Order, seen: int) -> Turn:
        """A turn of a worker of one of these machines (S1.3), or none where all are away, or nobody needs it any more.

        While they are away it lies in their queues, and costs nothing; it begins as soon as one is back.
        """
        within = _ONE_IS_WAITED_FOR if len(hosts) == 1 else _EACH_IS_WAITED_FOR
        for host in hosts:
            going = workflow.start_activity(
                ACTIVITY,
                order,
                result_type=Turn,
                task_queue=queue_on(workflow.info().task_queue, host),
                schedule_to_start_timeout=within,
                start_to_close_timeout=_TURN_TAKES_AT_MOST,
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_AGAIN,
            )
            await self._ended_or_woken(going, seen)
            if not going.done():
                with contextlib.suppress(TimeoutError):  # one that has begun may be about to end
                    await workflow.wait_condition(going.done, timeout=_GRACE)
                going.cancel()
            with contextlib.suppress(
                ActivityError
            ):  # nobody took it, or it was called off: anything else is tried again
                turn: Turn = await going
                return turn
            if self._wakes != seen:
                break
        return Turn(rests=False, waits=order.waits)

    async def _ended_or_woken(self, going: workflow.ActivityHandle[Turn], seen: int) -> None:
        await workflow.wait_condition(lambda: going.done() or self._wakes != seen)

    async def _woken(self, seen: int, within_s: float) -> None:
        if within_s <= 0:
            return
        try:
            await workflow.wait_condition(lambda: self._wakes != seen, timeout=timedelta(seconds=within_s))
        except TimeoutError:
            return
