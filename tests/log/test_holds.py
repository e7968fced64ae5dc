"""Which saga holds what, whatever the database (SEMANTICS.md S9.2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest
from tests.log.decisions import append, committing, opening, succeeding
from tests.log.kinds import Database, opened_log

from saga_mcp.domain.errors import ResourceHeld
from saga_mcp.domain.events import StepIntended, StepPlan
from saga_mcp.domain.holding import Holder
from saga_mcp.domain.values import Kind
from saga_mcp.log.port import Decide, SagaLog


@pytest.fixture
async def log(database: Database) -> AsyncGenerator[SagaLog]:
    async with opened_log(database) as opened:
        yield opened


def holding(resource: str) -> Decide:
    """Take hold of something by an intent."""
    plan = StepPlan(tool="t", kind=Kind.COMPENSABLE, resource=resource)
    return append(StepIntended(step=1, plan=plan, owner="me"))


async def test_what_one_saga_holds_no_other_one_takes_until_it_is_final(log: SagaLog) -> None:
    for saga_id in ("sg-a", "sg-b"):
        await log.decide(saga_id, opening())
    await log.decide("sg-a", holding("x"))
    assert await log.holder("ops", "x") == Holder("sg-a", waits=False)
    with pytest.raises(ResourceHeld, match='saga sg-a holds "x"'):
        await log.decide("sg-b", holding("x"))
    assert (await log.load("sg-b")).seq == 1
    await log.decide("sg-a", succeeding())
    await log.decide("sg-a", committing)
    assert await log.holder("ops", "x") is None
    await log.decide("sg-b", holding("x"))
    assert await log.holder("ops", "x") == Holder("sg-b", waits=False)


async def test_of_two_sagas_that_take_the_same_in_one_batch_one_is_refused(log: SagaLog) -> None:
    names = [f"sg-{letter}" for letter in "abcdef"]
    for saga_id in names:
        await log.decide(saga_id, opening())
    refused: list[str] = []

    async def take(saga_id: str) -> None:
        try:
            await log.decide(saga_id, holding("x"))
        except ResourceHeld:
            refused.append(saga_id)

    async with anyio.create_task_group() as tasks:
        for saga_id in names:
            tasks.start_soon(take, saga_id)
    (holder,) = set(names) - set(refused)
    assert await log.holder("ops", "x") == Holder(holder, waits=False)
