"""A worker's connection to Temporal: takes the turns that it gives out, until the engine stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib.metadata import version
from typing import Any, Final

import anyio
import structlog
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from saga_mcp.domain.errors import LogError
from saga_mcp.engine.clock import Clock
from saga_mcp.engine.drivers.rounds import ToolMissing
from saga_mcp.engine.drivers.temporal.connection import TemporalConnection, TemporalUnreachable
from saga_mcp.engine.drivers.temporal.errands import Errands, NotOurs
from saga_mcp.engine.drivers.temporal.messages import ACTIVITY, Order, Turn, queue_on
from saga_mcp.engine.drivers.temporal.workflow import DriveSaga
from saga_mcp.engine.supervise import wait_for
from saga_tools import Retry

_log = structlog.get_logger(__name__)

_BUILD: Final = f"saga-mcp {version('saga-mcp')}"
"""Shown in Temporal. Left out, the SDK hashes every loaded module: a second in which nothing else goes on."""
_TURNS_AT_A_TIME: Final = 64
"""What holds back a rush of aborts: the others wait in Temporal."""
_BEAT_S: Final = 1.0
_STICKY: Final = timedelta(seconds=1)
"""How long the next step of a workflow waits for the worker that has it in memory: others are as good."""
_ENDS_WITHIN: Final = timedelta(seconds=5)
_AGAIN: Final = Retry(first_delay_s=0.5, max_delay_s=10.0)
_LEAVES_TO_OTHERS: Final = Retry(first_delay_s=0.2, max_delay_s=30.0)
"""Before a worker that has the tools may take a turn that this one lacks them for: it is likely to be there already."""
_MAKES_DO_AFTER: Final = 27
"""Attempts without the tools after which a saga that no worker has them for becomes a person's: after those delays, ten
minutes."""


class TemporalHands:
    """Takes turns for one realm."""

    def __init__(
        self, connection: TemporalConnection, realm: str, task_queue: str, clock: Clock, *, host: str = ""
    ) -> None:
        """Made by `app_driver`; `host`: the key of this machine, if it has one."""
        self._connection = connection
        self._host = host
        self._realm = realm
        self._task_queue = task_queue
        self._clock = clock

    async def work(self, errands: Errands) -> None:
        """See `driver.Hands`. Connects again and again, where it has to."""
        # What it says of a turn that failed we say ourselves, without the trace.
        logging.getLogger("temporalio.activity").setLevel(logging.ERROR)
        failures = 0
        while not errands.stopping.is_set():
            try:
                client = await self._connection.client()
                activities = [self._activity(errands)]
                workers = [self._worker(client, self._task_queue, activities, flows=[DriveSaga])]
                if self._host:  # what only this machine may do (S1.3)
                    workers.append(self._worker(client, queue_on(self._task_queue, self._host), activities))
                _log.info("worker_ready", realm=self._realm, task_queue=self._task_queue)
                failures = 0
                await _run(workers, errands.stopping)
            except TemporalUnreachable as error:
                failures += 1
                _log.warning("driver_unavailable", reason=str(error), failures=failures)
            except Exception:  # noqa: BLE001 - it tries again for ever after
                failures += 1
                _log.exception("worker_failed", failures=failures)
            if failures:
                await wait_for(errands.stopping, _AGAIN.delay_s(failures), self._clock)

    def _worker(
        self, client: Client, task_queue: str, activities: Sequence[Callable[..., Any]], flows: Sequence[type] = ()
    ) -> Worker:
        return Worker(
            client,
            task_queue=task_queue,
            workflows=flows,
            workflow_runner=UnsandboxedWorkflowRunner(),  # the sandbox costs each saga more than its turns
            activities=activities,
            max_concurrent_activities=_TURNS_AT_A_TIME,
            sticky_queue_schedule_to_start_timeout=_STICKY,
            graceful_shutdown_timeout=_ENDS_WITHIN,
            build_id=_BUILD,
            max_heartbeat_throttle_interval=timedelta(seconds=_BEAT_S),
            default_heartbeat_throttle_interval=timedelta(seconds=_BEAT_S),
        )

    def _activity(self, errands: Errands) -> Callable[..., Any]:
        @activity.defn(name=ACTIVITY)
        async def turn(order: Order) -> Turn:
            if order.realm != self._realm:
                raise ApplicationError(f"this worker is of realm {self._realm}", type="other_realm")
            lacked = _lacked()
            activity.heartbeat(lacked)
            beating = asyncio.ensure_future(_beat(lacked))
            try:
                return await errands.take_turn(order.saga_id, order.waits, makes_do=lacked >= _MAKES_DO_AFTER)
            except (NotOurs, ToolMissing, LogError) as error:
                again: timedelta | None = None
                if isinstance(error, ToolMissing):
                    beating.cancel()
                    activity.heartbeat(lacked + 1)
                    again = timedelta(seconds=_LEAVES_TO_OTHERS.delay_s(lacked + 1))
                _log.warning("turn_put_off", saga_id=order.saga_id, reason=str(error))
                raise ApplicationError(str(error), type=type(error).__name__, next_retry_delay=again) from None
            except Exception as error:  # noqa: BLE001 - told to Temporal without its text, which may quote values
                _log.exception("driving_failed", saga_id=order.saga_id)
                raise ApplicationError("internal error: see the worker's log", type=type(error).__name__) from None
            finally:
                beating.cancel()

        return turn


def _lacked() -> int:
    """How many attempts at this turn have ended because their worker lacked a tool; others prove nothing of tools.

    The attempts tell each other by what they say with their heartbeats.
    """
    told = activity.info().heartbeat_details
    return told[0] if told and isinstance(told[0], int) else 0


async def _beat(lacked: int) -> None:
    while True:
        await asyncio.sleep(_BEAT_S)
        activity.heartbeat(lacked)


async def _run(workers: Sequence[Worker], stopping: anyio.Event) -> None:
    """Run the workers until one fails or they are to stop.

    In tasks of asyncio's own: a cancelled scope of anyio would cut off the end of a worker too.
    """
    running = [asyncio.ensure_future(worker.run()) for worker in workers]
    ended = anyio.Event()
    for each in running:
        each.add_done_callback(lambda _: ended.set())
    try:
        async with anyio.create_task_group() as either:

            async def stop() -> None:
                await stopping.wait()
                either.cancel_scope.cancel()

            either.start_soon(stop)
            await ended.wait()
            either.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            # All are told at once: none takes a new turn while another one ends.
            endings = [worker.shutdown() for worker, run in zip(workers, running, strict=True) if not run.done()]
            await asyncio.gather(*endings)
            for end in await asyncio.gather(*running, return_exceptions=True):
                if isinstance(end, Exception):
                    raise end
