"""The workflow by itself, with hours that pass in a moment: Temporal's time-skipping test server."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from saga_mcp.engine.drivers.temporal.messages import ACTIVITY, WAKE, WORKFLOW, Order, Turn
from saga_mcp.engine.drivers.temporal.workflow import DriveSaga

TEST_SERVER = str(Path(sys.executable).with_name("temporal-test-server"))
Script = Callable[[Order, int], Awaitable[Turn]]


@dataclass
class Run:
    """A workflow whose turns a script takes."""

    script: Script
    environment: WorkflowEnvironment
    queue: str = field(default_factory=lambda: secrets.token_hex(8))
    orders: list[Order] = field(default_factory=list[Order])
    handle: WorkflowHandle[Any, Any] | None = None

    async def began(self) -> WorkflowHandle[Any, Any]:
        order = Order("ledger", "sg-1")
        client = self.environment.client
        self.handle = await client.start_workflow(WORKFLOW, order, id=self.queue, task_queue=self.queue)
        return self.handle

    async def took_s(self) -> float:
        """How long it took by its own clock, which stands for hours that were skipped."""
        assert self.handle is not None
        events = (await self.handle.fetch_history()).events
        return float(events[-1].event_time.ToMicroseconds() - events[0].event_time.ToMicroseconds()) / 1e6

    @asynccontextmanager
    async def listening(self, queue: str, take: Callable[[Order], Awaitable[Turn]]) -> AsyncGenerator[None]:
        """A worker on a queue of its own."""

        @activity.defn(name=ACTIVITY)
        async def turn(order: Order) -> Turn:
            return await take(order)

        async with Worker(self.environment.client, task_queue=queue, activities=[turn]):
            yield

    async def first_turn(self) -> None:
        """Return once a worker has taken one; bounded by the test's own limit."""
        while not self.orders:  # noqa: ASYNC110 - in another process
            await anyio.sleep(0.01)

    async def wake(self) -> None:
        assert self.handle is not None
        await self.environment.client.get_workflow_handle(self.handle.id).signal(WAKE)


@asynccontextmanager
async def running(script: Script) -> AsyncGenerator[Run]:
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=TEST_SERVER) as environment:
        run = Run(script, environment)

        @activity.defn(name=ACTIVITY)
        async def turn(order: Order) -> Turn:
            run.orders.append(order)
            return await run.script(order, len(run.orders))

        async with Worker(environment.client, task_queue=run.queue, workflows=[DriveSaga], activities=[turn]):
            yield run


async def test_a_day_of_back_offs_takes_a_day_and_what_was_planned_comes_back() -> None:
    async def script(_order: Order, number: int) -> Turn:
        return Turn(rests=number > 24, again_in_s=3600.0, waits={"1/1/0": 3600.0, "2/3/0": 7200.0})

    async with running(script) as run:
        await (await run.began()).result()
        took_s = await run.took_s()
    assert len(run.orders) == 25
    assert took_s == pytest.approx(24 * 3600, rel=0.01)
    assert run.orders[1].waits["1/1/0"] == pytest.approx(0.0, abs=1.0)
    assert run.orders[1].waits["2/3/0"] == pytest.approx(3600.0, rel=0.01)


async def test_a_wake_up_while_a_turn_finds_nothing_to_drive_is_another_turn() -> None:
    """A run ends only after a turn that found nothing, with no signal unhandled."""

    async def script(_order: Order, number: int) -> Turn:
        if number == 1:
            await run.wake()
        return Turn(rests=True)

    async with running(script) as run:
        await (await run.began()).result()
    assert len(run.orders) == 2


async def test_a_wake_up_ends_a_wait_and_what_was_planned_stays_planned() -> None:
    async def script(_order: Order, number: int) -> Turn:
        return Turn(rests=number == 2, again_in_s=86400.0, waits={"1/1/0": 86400.0})

    async with running(script) as run:
        handle = await run.began()
        await run.first_turn()
        await run.wake()
        await handle.result()
        took_s = await run.took_s()
    assert took_s < 3600
    assert run.orders[1].waits["1/1/0"] > 80000.0


async def test_what_needs_a_machine_is_put_into_the_queue_of_its_workers() -> None:
    async def script(_order: Order, _number: int) -> Turn:
        return Turn(rests=False, hosts=["a"])

    async def taken(_order: Order) -> Turn:
        return Turn(rests=True)

    async with running(script) as run, run.listening(f"{run.queue}@a", taken):
        await (await run.began()).result()
    assert len(run.orders) == 1


async def test_what_a_person_decides_is_looked_at_though_a_machine_is_awaited() -> None:
    async def script(_order: Order, number: int) -> Turn:
        return Turn(rests=number == 2, hosts=["a"] if number == 1 else [])

    async with running(script) as run:
        handle = await run.began()
        await run.first_turn()
        await run.wake()
        await handle.result()
        took_s = await run.took_s()
    assert took_s < 60
    assert len(run.orders) == 2


@pytest.mark.slow
async def test_a_long_rollback_does_not_let_a_history_grow() -> None:
    async def script(_order: Order, number: int) -> Turn:
        return Turn(rests=number > 210, again_in_s=1.0)

    async with running(script) as run:
        handle = await run.began()
        await handle.result()
        first = await run.environment.client.get_workflow_handle(
            handle.id, run_id=handle.first_execution_run_id
        ).fetch_history()
    assert len(run.orders) == 211
    assert len(first.events) < 3000


async def test_a_turn_that_no_worker_can_take_now_is_tried_until_one_can() -> None:
    async def script(_order: Order, number: int) -> Turn:
        if number < 20:
            raise RuntimeError("planned")
        return Turn(rests=True)

    async with running(script) as run:
        await (await run.began()).result()
    assert len(run.orders) == 20
