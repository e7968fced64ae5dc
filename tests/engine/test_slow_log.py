"""A log that takes longer than the caller waits (DESIGN.md rules 1 and 6)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.world.clock import ManualClock
from tests.world.failing import LogAround
from tests.world.reading import World
from tests.world.server import served

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.events import StepIntended
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import StepState
from saga_mcp.engine.ticket import NOT_IN_TIME
from saga_mcp.log.port import Decide, Decided, Decision, SagaLog


class HeldLog(LogAround):
    """Keeps back whoever wants something of it, before it looks at it or after it is stored, until `go`."""

    def __init__(self, inner: SagaLog, *, stored: bool) -> None:
        super().__init__(inner)
        self._stored = stored
        self.holding = False
        self.held = anyio.Event()
        self.go = anyio.Event()

    async def decide(self, saga_id: str, decide: Decide) -> Decided:
        intents: list[bool] = []

        def watched(saga: Saga) -> Decision:
            decision = decide(saga)
            intents.append(any(isinstance(event, StepIntended) for event in decision.events))
            return decision

        if self.holding and not self._stored:
            await self._hold()
        decided = await self.inner.decide(saga_id, watched)
        if self.holding and any(intents):
            await self._hold()
        return decided

    async def _hold(self) -> None:
        self.held.set()
        await self.go.wait()


@pytest.mark.parametrize("stored", [False, True])
async def test_what_a_caller_was_told_not_to_be_sent_is_not_sent_when_the_log_comes_back(
    world: World, database: Path, *, stored: bool
) -> None:
    """And where the intent may be stored already, the caller is not told so."""
    logs: list[HeldLog] = []

    def held(log: SagaLog) -> SagaLog:
        logs.append(HeldLog(log, stored=stored))
        return logs[0]

    clock = ManualClock()
    async with served(database, wrap=held, clock=clock, reply_within_s=2.0) as server:
        saga_id = await server.begin()
        logs[0].holding = True
        said: list[str] = []

        async def call() -> None:
            try:
                said.append((await server.call("reserve", saga_id, item="a")).code)
            except LogUnavailable as error:
                said.append(str(error))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            with anyio.fail_after(5):
                await logs[0].held.wait()
            for wait_s in (2.0, 3.0):
                await clock.asleep_for(wait_s)
                clock.advance(wait_s)
        assert said == ["still_running" if stored else NOT_IN_TIME]
        logs[0].holding = False
        logs[0].go.set()
        await server.until(saga_id, lambda saga: not saga.running and len(saga.steps) == stored)
        assert (await server.call("reserve", saga_id, item="b")).code == ""
        saga = await server.commit(saga_id)
        assert {step.state for step in saga.steps} == {StepState.SUCCEEDED}
    assert world.order == (["reserve(a)", "reserve(b)"] if stored else ["reserve(b)"])
