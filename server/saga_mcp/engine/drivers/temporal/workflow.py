"""The workflow: turns at a saga, and durable timers between them, until there is nothing to drive (SEMANTICS.md S12.3).

It decides nothing about the saga and knows nothing of it: state and fence are the saga log. What is here must replay:
`tests/temporal/histories` holds runs of earlier versions, and a change that does not fit them needs `workflow.patched`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from saga_mcp.engine.drivers.temporal.messages import ACTIVITY, WAKE, WORKFLOW, Order, Turn

_TURN_TAKES_AT_MOST: Final = timedelta(hours=1)
"""Longer than an undo may take, as a rule. A turn that is cut off goes on in its worker, and is fenced by the log."""
_HEARTBEAT: Final = timedelta(seconds=5)
"""A worker that is not heard of for so long is given up, and another one takes its turn."""
_AGAIN: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
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
        for _ in range(_TURNS_IN_A_RUN):
            seen = self._wakes
            turn: Turn = await workflow.execute_activity(
                ACTIVITY,
                Order(order.realm, order.saga_id, waits),
                result_type=Turn,
                start_to_close_timeout=_TURN_TAKES_AT_MOST,
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_AGAIN,
            )
            if self._wakes == seen:
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

    async def _woken(self, seen: int, within_s: float) -> None:
        if within_s <= 0:
            return
        try:
            await workflow.wait_condition(lambda: self._wakes != seen, timeout=timedelta(seconds=within_s))
        except TimeoutError:
            return
