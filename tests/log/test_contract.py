"""What every saga log keeps to, whatever the database: the port's promises, one by one (SEMANTICS.md S10.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import anyio
import pytest
from tests.log.decisions import aborting, append, committing, intending, looking, opening, rolling_back, succeeding
from tests.log.failing import AnswerLost, FailingLog, FailWhen
from tests.log.foreign import foreign
from tests.log.kinds import Database, opened_log
from tests.postgres.server import sql
from tests.world.memory import MemoryDatabase

from saga_mcp.domain.errors import (
    IllegalTransition,
    LogUnavailable,
    Refused,
    SagaClosed,
    SagaNotFound,
    SagaQuarantined,
    ToolPaused,
)
from saga_mcp.domain.events import SagaCommitted, SagaOpened, SavepointSet, StepIntended, StepSucceeded
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase, StepState
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import Decision, PairRow, SagaKeyTaken, SagaLog


@pytest.fixture
async def log(database: Database) -> AsyncGenerator[SagaLog]:
    async with opened_log(database) as opened:
        yield opened


@pytest.fixture
async def other(database: Database) -> AsyncGenerator[SagaLog]:
    """The same database as another process sees it: a writer, a reader and folds of its own."""
    async with opened_log(database) as opened:
        yield opened


async def test_a_decision_sees_the_state_and_what_it_returns_is_stored(log: SagaLog) -> None:
    await log.decide("sg-a", opening(purpose="trip"))
    decided = await log.decide("sg-a", intending(cents=2**63 + 1))
    assert (decided.before.seq, decided.saga.seq) == (1, 2)
    loaded = await log.load("sg-a")
    assert loaded == decided.saga
    assert loaded.steps[0].plan.args == {"cents": 2**63 + 1}


async def test_the_state_a_decision_leads_to_is_the_one_that_its_stored_events_give(
    log: SagaLog, other: SagaLog
) -> None:
    await log.decide("sg-a", opening())
    await log.decide("sg-a", intending())
    await log.decide("sg-a", succeeding())
    aborted = await log.decide("sg-a", rolling_back)
    assert (aborted.saga.phase, await other.load("sg-a")) == (Phase.COMPENSATING, aborted.saga)


async def test_events_drafted_on_another_state_are_not_stored_where_they_are_illegal(log: SagaLog) -> None:
    await log.decide("sg-a", opening())
    old = (await log.decide("sg-a", intending())).saga
    made = rolling_back(old)
    await log.decide("sg-a", succeeding())
    await log.decide("sg-a", committing)
    with pytest.raises(IllegalTransition):
        await log.decide("sg-a", lambda _: made)
    assert (await log.load("sg-a")).phase is Phase.COMMITTED


async def test_a_new_saga_is_handed_in_empty(log: SagaLog) -> None:
    decided = await log.decide("sg-none", looking)
    assert decided.before == decided.saga == Saga(id="sg-none")
    with pytest.raises(SagaNotFound):
        await log.load("sg-none")


async def test_a_refusal_stores_nothing_and_reaches_its_caller(log: SagaLog) -> None:
    await log.decide("sg-a", opening())
    await log.decide("sg-a", committing)
    with pytest.raises(SagaClosed):
        await log.decide("sg-a", committing)
    assert (await log.load("sg-a")).seq == 2


async def test_another_process_sees_an_append_at_once(log: SagaLog, other: SagaLog) -> None:
    await log.decide("sg-a", opening())
    await other.load("sg-a")
    await log.decide("sg-a", intending())
    assert (await other.load("sg-a")).seq == 2
    assert (await other.decide("sg-a", succeeding())).before.seq == 2
    assert (await log.load("sg-a")).seq == 3


async def test_a_decision_is_run_last_on_the_true_state_where_the_fold_was_old(log: SagaLog, other: SagaLog) -> None:
    await log.decide("sg-a", opening())
    await other.decide("sg-a", committing)
    seen: list[int] = []

    def decide(saga: Saga) -> Decision:
        seen.append(saga.seq)
        return aborting(saga)

    with pytest.raises(SagaClosed):
        await log.decide("sg-a", decide)
    assert seen[-1] == 2


async def test_a_look_without_events_is_never_answered_from_an_old_fold(log: SagaLog, other: SagaLog) -> None:
    await log.decide("sg-a", opening())
    await other.decide("sg-a", intending())
    assert (await log.decide("sg-a", looking)).saga.seq == 2


async def test_decisions_that_wait_together_each_see_what_the_earlier_ones_did(log: SagaLog) -> None:
    await log.decide("sg-a", opening())
    decided = await asyncio.gather(*(log.decide("sg-a", intending(n=n)) for n in range(20)))
    assert [one.before.seq for one in decided] == list(range(1, 21))
    assert [step.plan.args["n"] for step in (await log.load("sg-a")).steps] == list(range(20))


@pytest.mark.parametrize("error", [ValueError("mine"), Refused("no"), StopIteration(), KeyError("x")])
async def test_a_decision_that_fails_does_not_touch_its_neighbours(log: SagaLog, error: Exception) -> None:
    await log.decide("sg-a", opening())

    def failing(_: Saga) -> Decision:
        raise error

    results = await asyncio.gather(
        log.decide("sg-a", intending()),
        log.decide("sg-a", failing),
        log.decide("sg-a", append(SagaOpened(realm="ops", driver="own-1"))),
        log.decide("sg-a", intending()),
        log.decide("sg-b", opening()),
        return_exceptions=True,
    )
    assert isinstance(results[1], RuntimeError if isinstance(error, StopIteration) else type(error))
    assert isinstance(results[2], IllegalTransition)
    assert len((await log.load("sg-a")).steps) == 2
    assert (await log.load("sg-b")).seq == 1


async def test_what_the_database_cannot_take_fails_only_its_own_caller(log: SagaLog) -> None:
    """A lone surrogate in a column that is no JSON: the driver refuses it in the middle of a batch."""
    results = await asyncio.gather(
        log.decide("sg-a", opening()),
        log.decide("sg-b", opening(purpose="\ud800")),
        log.decide("sg-c", opening()),
        return_exceptions=True,
    )
    assert isinstance(results[1], Exception)
    assert (await log.load("sg-a")).seq == (await log.load("sg-c")).seq == 1
    with pytest.raises(SagaNotFound):
        await log.load("sg-b")


async def test_several_events_of_one_decision_are_stored_together_or_not_at_all(log: SagaLog) -> None:
    await log.decide("sg-a", opening())
    intent = (await log.decide("sg-b", opening())).saga
    plan = intending()(intent).events[0]
    assert isinstance(plan, StepIntended)
    await log.decide("sg-a", append(plan, StepSucceeded(step=1)))
    with pytest.raises(IllegalTransition):
        await log.decide("sg-b", append(plan, SagaCommitted(by="agent")))
    assert (await log.load("sg-a")).steps[0].state is StepState.SUCCEEDED
    assert (await log.load("sg-b")).seq == 1


async def test_a_cancelled_wait_does_not_cancel_the_write(log: SagaLog) -> None:
    await log.decide("sg-a", opening())
    for _ in range(20):
        before = (await log.load("sg-a")).seq
        with anyio.CancelScope() as scope:
            scope.cancel()
            await log.decide("sg-a", intending())
        assert (await log.decide("sg-a", looking)).saga.seq in {before, before + 1}
        assert (await log.decide("sg-a", intending())).saga.seq > before


async def test_history_tells_every_event_in_order_and_in_pages(log: SagaLog) -> None:
    await log.decide("sg-a", opening())
    for _ in range(5):
        await log.decide("sg-a", intending())
    assert [record.seq for record in await log.history("sg-a")] == [1, 2, 3, 4, 5, 6]
    page = await log.history("sg-a", after_seq=2, limit=2)
    assert [(record.seq, type(record.event)) for record in page] == [(3, StepIntended), (4, StepIntended)]
    assert await log.history("sg-none") == []


async def test_lists_show_the_realm_newest_first(log: SagaLog) -> None:
    for name in ("sg-a", "sg-b", "sg-c"):
        await log.decide(name, opening())
    await log.decide("sg-other", opening("elsewhere"))
    await log.decide("sg-b", committing)
    assert [row.id for row in await log.sagas("ops")] == ["sg-c", "sg-b", "sg-a"]
    assert [row.id for row in await log.sagas("ops", open_only=True)] == ["sg-c", "sg-a"]
    assert [row.id for row in await log.sagas("ops", limit=1, offset=1)] == ["sg-b"]
    assert await log.sagas("ops", attention_only=True) == []
    row = (await log.sagas("ops", limit=1, offset=1))[0]
    assert (row.phase, row.state, row.caller, row.driver, row.seq) == ("committed", "committed", "ada", "own-1", 2)


async def test_a_list_of_one_caller_is_not_cut_by_what_others_opened(log: SagaLog) -> None:
    await log.decide("sg-mine", append(SagaOpened(realm="ops", driver="", caller="ada", conversation="chat-1")))
    await log.decide("sg-old", append(SagaOpened(realm="ops", driver="", caller="ada", conversation="chat-2")))
    await log.decide("sg-theirs", append(SagaOpened(realm="ops", driver="", caller="bob", conversation="chat-1")))
    assert [row.id for row in await log.sagas("ops", caller="ada", limit=2)] == ["sg-old", "sg-mine"]
    assert [row.id for row in await log.sagas("ops", caller="ada", conversation="chat-1", limit=1)] == ["sg-mine"]
    assert [row.id for row in await log.sagas("ops", caller="", limit=1)] == []


async def test_only_sagas_that_somebody_has_to_drive_are_busy(log: SagaLog) -> None:
    await log.decide("sg-rest", opening())
    await log.decide("sg-runs", opening())
    await log.decide("sg-runs", intending())
    assert [row.id for row in await log.busy_sagas("ops")] == ["sg-runs"]
    await log.decide("sg-runs", succeeding())
    assert await log.busy_sagas("ops") == []
    await log.decide("sg-runs", aborting)
    assert [row.steps for row in await log.busy_sagas("ops")] == [1]


async def test_a_key_names_one_saga_of_its_caller_for_good(log: SagaLog, other: SagaLog) -> None:
    await log.decide("sg-a", opening(key="k"))
    await log.decide("sg-a", committing)
    with pytest.raises(SagaKeyTaken) as taken:
        await other.decide("sg-b", opening(key="k"))
    assert taken.value.saga_id == "sg-a"
    await other.decide("sg-c", opening(caller="bob", key="k"))
    await other.decide("sg-d", opening("elsewhere", key="k"))
    assert await log.saga_of_key("ops", "ada", "k") == "sg-a"
    assert await log.saga_of_key("ops", "bob", "k") == "sg-c"
    assert await log.saga_of_key("ops", "ada", "") is None
    assert await log.saga_of_key("ops", "ada", "new") is None


async def test_a_pair_is_stored_once_and_never_changes(log: SagaLog) -> None:
    first = PairRow(hash="h", content={"undo": [1, 2**70]})
    await log.decide("sg-a", opening())

    def with_pair(pair: PairRow) -> Decision:
        return Decision(events=intending()(Saga(id="sg-a")).events, pairs=(pair,))

    await log.decide("sg-a", lambda _: with_pair(first))
    await log.decide("sg-b", opening())
    await log.decide("sg-b", lambda _: with_pair(PairRow(hash="h", content={})))
    assert await log.pair("h") == first
    assert await log.pair("unknown") is None


async def test_whoever_waits_for_a_change_learns_of_every_one(log: SagaLog, other: SagaLog) -> None:
    with anyio.fail_after(5):
        seen = await other.wait_for_change()
        await log.decide("sg-a", opening())
        seen = await other.wait_for_change(seen)
        assert (await other.load("sg-a")).seq == 1
        here = await log.wait_for_change()
        await log.decide("sg-a", committing)
        assert await log.wait_for_change(here) > here
        while (await other.load("sg-a")).phase is not Phase.COMMITTED:
            seen = await other.wait_for_change(seen)


async def test_all_who_wait_are_woken_by_an_append_of_their_own_process(log: SagaLog) -> None:
    seen = await log.wait_for_change()
    woken: list[int] = []

    async def wait() -> None:
        woken.append(await log.wait_for_change(seen))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await log.decide("sg-a", opening())
    assert len(woken) == 3
    assert min(woken) > seen


async def test_nobody_is_woken_where_nothing_happened(log: SagaLog) -> None:
    seen = await log.wait_for_change()
    with anyio.move_on_after(0.5) as waited:
        await log.wait_for_change(seen)
    assert waited.cancelled_caught


async def test_what_calls_a_paused_tool_is_not_stored_whoever_paused_it(log: SagaLog, other: SagaLog) -> None:
    tool = "travel.charge"
    await log.decide("sg-a", opening())
    assert await other.paused("ops") == {}
    held = await other.pause("ops", Pause(tool=tool, by="ann", note="broken", at=1.0))
    assert await log.pause("ops", Pause(tool=tool, by="bob")) == held
    with pytest.raises(ToolPaused, match="ann has paused"):
        await log.decide("sg-a", intending())
    assert (await log.load("sg-a")).seq == 1
    assert (await log.paused("ops"), await log.paused("another")) == ({tool: held}, {})
    assert await log.resume("ops", tool)
    assert not await other.resume("ops", tool)
    await log.decide("sg-a", intending())
    await log.pause("ops", held)
    assert (await other.decide("sg-a", succeeding())).saga.seq == 3


async def test_a_failing_log_stores_nothing_before_and_everything_after(log: SagaLog) -> None:
    failing: SagaLog = FailingLog(log, at=2)
    await failing.decide("sg-a", opening())
    with pytest.raises(LogUnavailable):
        await failing.decide("sg-a", intending())
    await failing.decide("sg-a", intending())
    assert (await failing.load("sg-a")).seq == 2
    with pytest.raises(AnswerLost):
        await FailingLog(log, at=1, when=FailWhen.AFTER).decide("sg-a", succeeding())
    assert (await log.load("sg-a")).seq == 3


def _spoil(database: Database, saga_id: str, seq: int) -> None:
    """Make an event unreadable, as a damaged disk does, or a newer version."""
    if isinstance(database, MemoryDatabase):
        number, kind, version, _, payload = database.events[saga_id][seq - 1]
        database.events[saga_id][seq - 1] = (number, kind, version, "{broken", payload)
        return
    if isinstance(database, ServerPlace):
        broken = f"UPDATE saga_event SET facts='{{broken' WHERE saga_id='{saga_id}' AND seq={seq}"  # noqa: S608 - a test
        sql(database.url, broken)
        return
    with foreign(database) as raw:
        raw.execute("UPDATE saga_event SET facts='{broken' WHERE saga_id=? AND seq=?", (saga_id, seq))


@pytest.mark.case(67)
@pytest.mark.parametrize("how", ["read", "write"])
async def test_a_process_that_met_an_unreadable_saga_goes_on_with_the_others(
    log: SagaLog, other: SagaLog, database: Database, how: str
) -> None:
    """It sees what another process appends from then on, is woken by it, and writes. Its errors may be kept."""
    for saga_id in ("sg-bad", "sg-good"):
        await log.decide(saga_id, opening())
        for _ in range(3):
            await log.decide(saga_id, intending())
    _spoil(database, "sg-bad", 2)
    with pytest.raises(SagaQuarantined) as kept:
        await (other.load("sg-bad") if how == "read" else other.decide("sg-bad", looking))
    seen = await other.wait_for_change()
    with anyio.fail_after(15):
        await log.decide("sg-good", intending())
        assert await other.wait_for_change(seen) > seen
        assert (await other.load("sg-good")).seq == 5
        assert (await other.decide("sg-good", intending())).saga.seq == 6
        assert (await log.load("sg-good")).seq == 6
    assert kept.value.saga_id == "sg-bad"


async def test_of_several_that_count_the_same_time_one_gets_through(log: SagaLog, other: SagaLog) -> None:
    """S9.4."""
    assert await log.observe("ops", 0.0, 0.0) == 0.0
    assert await other.observe("ops", 0.0, 60.0) == 60.0
    assert await log.observe("ops", 0.0, 45.0) == 60.0
    assert await log.observe("ops", 60.0, 45.5) == 105.5
    assert await log.observe("home", 0.0, 1.0) == 1.0


async def test_twenty_that_count_at_once_count_once(log: SagaLog, other: SagaLog) -> None:
    seen = await asyncio.gather(*((log, other)[number % 2].observe("ops", 0.0, 60.0) for number in range(20)))
    assert set(seen) == {60.0}


async def test_a_saga_idles_from_its_last_event_on_and_not_while_it_is_busy(log: SagaLog, other: SagaLog) -> None:
    async def idle(for_s: float) -> list[str]:
        return [row.id for row in await other.idle_sagas("ops", for_s=for_s)]

    await log.decide("sg-old", opening())
    await log.decide("sg-busy", opening())
    await log.decide("sg-busy", intending())
    await log.observe("ops", 0.0, 50.0)
    await log.decide("sg-new", opening())
    await log.decide("sg-kept", opening())
    await log.decide("sg-elsewhere", opening("home"))
    await log.observe("ops", 50.0, 50.0)
    await log.decide("sg-kept", committing)
    assert await idle(50.0) == ["sg-old", "sg-new"]
    assert await idle(50.5) == ["sg-old"]
    assert await idle(100.5) == []
    await log.decide("sg-busy", succeeding())
    assert await idle(0.0) == ["sg-old", "sg-new", "sg-busy"]
    await log.decide("sg-old", append(SavepointSet(name="here")))
    assert await idle(100.0) == ["sg-old"]
    await log.decide("sg-old", intending())
    assert await idle(0.0) == ["sg-new", "sg-busy"]
