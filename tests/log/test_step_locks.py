"""What a step has locked fences its intent, whatever the database (SEMANTICS.md S5.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest
from tests.log.decisions import append, looking, opening
from tests.log.kinds import Database, opened_log

from saga_mcp.domain.events import Event, StepAttemptEnded, StepFailed, StepIntended, StepPlan
from saga_mcp.domain.values import Effect, Kind
from saga_mcp.log.port import Decide, Decision, SagaLog, StepLock, StepLockLost

NAME = "5" * 64
PLAN = StepPlan(tool="write", kind=Kind.COMPENSABLE)
OF_A = StepLock(realm="ops", name=NAME, saga_id="sg-a", owner="own-a", token="token of a")  # noqa: S106 - a name
OF_B = StepLock(realm="ops", name=NAME, saga_id="sg-b", owner="own-b", token="token of b")  # noqa: S106 - a name


@pytest.fixture
async def log(database: Database) -> AsyncGenerator[SagaLog]:
    async with opened_log(database) as opened:
        for saga_id in ("sg-a", "sg-b"):
            await opened.decide(saga_id, opening())
        yield opened


@pytest.fixture
async def other(log: SagaLog, database: Database) -> AsyncGenerator[SagaLog]:
    """The same database, as another process has it."""
    assert await log.realms()  # it is there
    async with opened_log(database) as opened:
        yield opened


def under(lock: StepLock, *events: Event) -> Decide:
    return lambda _: Decision(events=events, lock=lock)


def intent(lock: StepLock) -> Decide:
    return under(lock, StepIntended(step=1, plan=PLAN, owner=lock.owner))


async def test_an_intent_is_stored_while_its_lock_is_had(log: SagaLog) -> None:
    assert await log.take_lock(OF_A) == OF_A
    assert len((await log.decide("sg-a", intent(OF_A))).saga.steps) == 1


async def test_an_intent_whose_lock_was_taken_over_is_refused_and_its_neighbours_are_stored(
    log: SagaLog, other: SagaLog
) -> None:
    await log.take_lock(OF_A)
    assert await other.take_lock(OF_B, over=OF_A) == OF_B
    refused: list[str] = []

    async def late() -> None:
        try:
            await log.decide("sg-a", intent(OF_A))
        except StepLockLost:
            refused.append("sg-a")

    async with anyio.create_task_group() as tasks:  # one batch, as it may be
        tasks.start_soon(log.decide, "sg-a", looking)
        tasks.start_soon(late)
        tasks.start_soon(log.decide, "sg-b", intent(OF_B))
    assert refused == ["sg-a"]
    assert [len((await log.load(saga_id)).steps) for saga_id in ("sg-a", "sg-b")] == [0, 1]


async def test_an_intent_whose_lock_is_gone_is_refused(log: SagaLog) -> None:
    await log.take_lock(OF_A)
    await log.drop_lock(OF_A)
    with pytest.raises(StepLockLost):
        await log.decide("sg-a", intent(OF_A))
    assert not (await log.load("sg-a")).steps


async def test_a_look_asks_for_no_lock(log: SagaLog) -> None:
    assert (await log.decide("sg-a", under(OF_A))).saga.seq == 1


async def test_a_lock_under_which_a_step_runs_is_taken_from_nobody(log: SagaLog, other: SagaLog) -> None:
    """Also where the intent came after somebody found its process gone, and before they took the lock."""
    await log.take_lock(OF_A)
    await log.decide("sg-a", intent(OF_A))
    assert await other.take_lock(OF_B, over=OF_A) == OF_A
    between = StepAttemptEnded(step=1, effect=Effect.NONE, error="no")
    await log.decide("sg-a", append(between))
    assert await other.take_lock(OF_B, over=OF_A) == OF_A
    await log.decide("sg-a", append(StepFailed(step=1, error="no")))
    assert await other.take_lock(OF_B, over=OF_A) == OF_B


@pytest.mark.parametrize("times", range(3))
async def test_of_an_intent_and_a_taker_over_at_once_one_gets_through(log: SagaLog, other: SagaLog, times: int) -> None:
    assert times >= 0
    got: list[str] = []
    await log.take_lock(OF_A)

    async def intend() -> None:
        try:
            await log.decide("sg-a", intent(OF_A))
        except StepLockLost:
            return
        got.append("the intent")

    async def take_over() -> None:
        if await other.take_lock(OF_B, over=OF_A) == OF_B:
            got.append("the taker-over")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(intend)
        tasks.start_soon(take_over)
    assert len(got) == 1
    assert len((await log.load("sg-a")).steps) == (got == ["the intent"])
