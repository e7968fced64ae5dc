"""A saga that begins together with what is appended to another one: both are stored, or neither is (S10.1, S13)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest
from tests.log.decisions import committing, intending, opening, succeeding
from tests.log.kinds import Database, opened_log

from saga_mcp.domain.errors import IllegalTransition, ResourceHeld, SagaClosed, SagaNotFound
from saga_mcp.domain.events import AbortRequested, Event, SagaOpened, SagaReverted, StepAdopted, StepIntended, StepPlan
from saga_mcp.domain.on_saga import revertible
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Kind, Phase
from saga_mcp.log.port import Decide, Decision, Opening, SagaLog

HELD = StepPlan(tool="travel.charge", kind=Kind.COMPENSABLE, resource="card:1")


@pytest.fixture
async def log(database: Database) -> AsyncGenerator[SagaLog]:
    async with opened_log(database) as opened:
        yield opened


@pytest.fixture
async def other(database: Database) -> AsyncGenerator[SagaLog]:
    async with opened_log(database) as opened:
        yield opened


async def kept(log: SagaLog) -> None:
    """A committed saga of one step, `sg-old`."""
    for decide in (opening(), intending(), succeeding(), committing):
        await log.decide("sg-old", decide)


def reverting(into: str, plan: StepPlan = HELD, *more: Event) -> Decide:
    def decide(saga: Saga) -> Decision:
        if not revertible(saga, saga.step(1)):
            raise SagaClosed(saga.id)
        opened = SagaOpened(realm="ops", driver="own-1", caller="ada", reverts=saga.id)
        step = StepAdopted(step=1, undoes=1, plan=plan, intent_seq=2, order=3)
        begun = (opened, step, AbortRequested(cause="revert"), *more)
        return Decision(
            events=(SagaReverted(revert=into, steps=(1,), by="ada"),), opens=Opening(saga_id=into, events=begun)
        )

    return decide


async def test_another_process_sees_both_or_neither(log: SagaLog, other: SagaLog) -> None:
    await kept(log)
    await log.decide("sg-old", reverting("sg-new"))
    new = await other.load("sg-new")
    assert (new.phase, new.reverts, new.step(1).undoes) == (Phase.COMPENSATING, "sg-old", 1)
    assert [each.revert for each in (await other.load("sg-old")).reverted] == ["sg-new"]
    rows = {row.id: row for row in await other.sagas("ops")}
    assert (rows["sg-old"].reverted_by, rows["sg-new"].reverted_by) == ("sg-new", "")
    assert [row.id for row in await other.busy_sagas("ops")] == []
    assert [row.id for row in await other.sagas("ops", open_only=True)] == ["sg-new"]
    assert [record.seq for record in await other.history("sg-new")] == [1, 2, 3]


async def test_an_opening_that_is_not_allowed_leaves_nothing(log: SagaLog, other: SagaLog) -> None:
    await kept(log)
    with pytest.raises(IllegalTransition):
        await log.decide("sg-old", reverting("sg-new", HELD, AbortRequested(cause="again")))
    assert not (await other.load("sg-old")).reverted
    with pytest.raises(SagaNotFound):
        await other.load("sg-new")


async def test_who_comes_second_opens_nothing(log: SagaLog, other: SagaLog) -> None:
    await kept(log)
    refused: list[str] = []

    async def revert(by: SagaLog, into: str) -> None:
        try:
            await by.decide("sg-old", reverting(into))
        except SagaClosed:
            refused.append(into)

    async with anyio.create_task_group() as tasks:
        for number, by in enumerate((log, other, log, other)):
            tasks.start_soon(revert, by, f"sg-{number}")
    (first,) = (await other.load("sg-old")).reverted
    assert len(refused) == 3
    assert {row.id for row in await log.sagas("ops")} == {"sg-old", first.revert}


async def test_what_it_takes_hold_of_must_be_free_and_is_held_to_its_end(log: SagaLog, other: SagaLog) -> None:
    await kept(log)
    await other.decide("sg-busy", opening())
    holding = StepIntended(step=1, plan=HELD, owner="own-1")
    await other.decide("sg-busy", lambda _: Decision(events=(holding,)))
    with pytest.raises(ResourceHeld) as held:
        await log.decide("sg-old", reverting("sg-new"))
    assert held.value.holder == "sg-busy"
    assert not (await log.load("sg-old")).reverted
    await log.decide("sg-old", reverting("sg-new", StepPlan(tool="t", kind=Kind.COMPENSABLE, resource="card:2")))
    holder = await other.holder("ops", "card:2")
    assert holder is not None
    assert holder.saga_id == "sg-new"
