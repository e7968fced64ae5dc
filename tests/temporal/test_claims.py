"""What a server or a worker over Temporal does while others do not see that it lives (SEMANTICS.md S3.5, S12.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment
from tests.temporal.served import Realm
from tests.world.claims import Said
from tests.world.reading import World
from tests.world.server import Server, eventually, served

from saga_mcp.domain.attention import items
from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.saga_decisions import request_abort
from saga_mcp.domain.values import Phase
from saga_mcp.engine.clock import SystemClock
from saga_mcp.engine.drivers.rounds import ToolMissing
from saga_mcp.engine.drivers.temporal import worker as module
from saga_mcp.engine.drivers.temporal.driver import TemporalDriver
from saga_mcp.engine.drivers.temporal.errands import Errands
from saga_mcp.engine.drivers.temporal.messages import Order, Turn
from saga_mcp.engine.drivers.temporal.worker import TemporalHands
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import Claim
from saga_tools import ToolRegistry

pytestmark = pytest.mark.timeout(120)


@dataclass
class Alone:
    """A server or worker that tells Temporal nothing: what it would tell is noted, and its turns are the test's."""

    works: bool = False
    sent: list[str] = field(default_factory=list[str])
    signalled: list[str] = field(default_factory=list[str])
    """Those of them of which a workflow that runs is told too."""
    shop: Workshop | None = None
    errands: Errands | None = None

    @property
    def owners(self) -> Said:
        assert self.shop is not None
        assert isinstance(self.shop.owners, Said)
        return self.shop.owners

    def driver(self, shop: Workshop, tasks: TaskGroup) -> TemporalDriver:
        self.shop = shop
        shop.owners = Said(shop.owners)
        return TemporalDriver(shop, tasks, self._send, self if self.works else None, brief=False)

    async def work(self, errands: Errands) -> None:
        self.errands = errands
        await errands.stopping.wait()

    async def _send(self, saga_id: str, *, signal: bool) -> None:
        self.sent.append(saga_id)
        if signal:
            self.signalled.append(saga_id)


@asynccontextmanager
async def alone(
    database: Path,
    *,
    works: bool = False,
    **changed: Any,  # noqa: ANN401 - see `served`
) -> AsyncGenerator[tuple[Server, Alone]]:
    one = Alone(works=works)
    async with served(database, driver=one.driver, recovery_every_s=0.02, **changed) as server:
        yield server, one


async def test_a_claim_that_is_awaited_for_a_while_does_not_end_the_scan(database: Path, world: World) -> None:
    """What is found by the scan alone: whoever was to tell of it has ended before it could."""
    async with alone(database) as (server, one):
        await one.owners.say(Claim.AWAITED)
        await one.owners.say(None)
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        assert one.shop is not None
        await one.shop.decide(saga_id, lambda saga, driving: request_abort(saga, driving, cause="agent"))
        await eventually(lambda: saga_id in one.sent)
    assert world.standing == ["reserve(a)"]


async def test_a_worker_whose_claim_is_lost_takes_no_more_turns(database: Path) -> None:
    async with alone(database, works=True) as (_, one):
        await eventually(lambda: one.errands is not None)
        assert one.errands is not None
        await one.owners.say(Claim.AWAITED)
        assert not one.errands.stopping.is_set()
        with pytest.raises(LogUnavailable, match="the claim is awaited"):
            await one.errands.take_turn("sg-1", {})
        await one.owners.say(None)
        one.owners.standing_is(Claim.LOST)
        with anyio.fail_after(10):
            await one.errands.stopping.wait()


async def test_a_worker_that_ends_passes_on_what_was_planned(database: Path) -> None:
    async with alone(database, works=True) as (server, one):
        await eventually(lambda: one.errands is not None)
        assert one.errands is not None
        saga_id = await server.begin()
        one.errands.stop()
        turn = await one.errands.take_turn(saga_id, {"1/1/main": 120.0})
        assert (turn.rests, turn.again_in_s) == (False, 0.0)
        assert turn.waits == {"1/1/main": pytest.approx(120.0, abs=5.0)}


async def test_a_worker_that_waits_for_its_claim_does_not_fill_the_history(realm: Realm, world: World) -> None:
    owners: list[Said] = []

    def claimed(driver: Any) -> Any:  # noqa: ANN401 - a factory of drivers
        def made(shop: Workshop, tasks: TaskGroup) -> Any:  # noqa: ANN401 - see above
            owners.append(Said(shop.owners))
            shop.owners = owners[-1]
            return driver(shop, tasks)

        return made

    async with realm.serving(reply_within_s=0.1) as server, realm.working(around_driver=claimed):
        await owners[0].say(Claim.AWAITED)
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.abort(saga_id)
        flow = await realm.workflow(saga_id)

        async def put_off() -> bool:
            try:
                found = (await flow.describe()).raw_description.pending_activities
            except RPCError:
                return False
            return any(each.attempt > 1 and "the claim is awaited" in each.last_failure.message for each in found)

        await eventually(put_off)
        assert len((await flow.fetch_history()).events) < 10
        assert world.sent("release") == []
        await owners[0].say(None)
        await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.standing == []


class _Turns:
    """Errands whose turns end as a test says."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.made_do: list[bool] = []

    async def take_turn(self, saga_id: str, waits: object, *, makes_do: bool) -> Turn:
        del saga_id, waits
        self.made_do.append(makes_do)
        if self._error is not None:
            raise self._error
        return Turn(rests=True)


@pytest.mark.parametrize(
    ("told", "error", "made_do", "tells"),
    [
        ((), None, False, 0),
        ((), ToolMissing("planned"), False, 1),
        ((26,), LogUnavailable("planned"), False, 26),
        ((26,), ToolMissing("planned"), False, 27),
        ((27,), None, True, 27),
    ],
)
async def test_only_attempts_without_the_tool_count_before_a_worker_makes_do(
    told: tuple[int, ...], error: Exception | None, tells: int, *, made_do: bool
) -> None:
    """This is the hundredth attempt: whatever the others failed for, they prove nothing of tools."""
    environment, beats, turns = ActivityEnvironment(), list[Any](), _Turns(error)
    environment.info = replace(environment.info, attempt=100, heartbeat_details=told)
    environment.on_heartbeat = lambda *details: beats.append(details)
    hands = TemporalHands(None, "ledger", "queue", SystemClock())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # not used
    activity = hands._activity(turns)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportPrivateUsage]  # what it calls of it
    if error is None:
        await environment.run(activity, Order("ledger", "sg-1"))
    else:
        with pytest.raises(Exception, match="planned"):
            await environment.run(activity, Order("ledger", "sg-1"))
    assert turns.made_do == [made_do]
    assert beats[-1] == (tells,)


@pytest.mark.parametrize(("lacked", "again_s"), [(0, 0.2), (1, 0.4), (7, 25.6), (8, 30.0), (26, 30.0)])
async def test_a_worker_without_the_tool_leaves_the_turn_to_others_at_once_and_ever_less_often(
    lacked: int, again_s: float
) -> None:
    """Which worker gets the next attempt is chance: half of them may lack it."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_details=(lacked,))
    hands = TemporalHands(None, "ledger", "queue", SystemClock())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # not used
    activity = hands._activity(_Turns(ToolMissing("planned")))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportPrivateUsage]  # what it calls of it
    with pytest.raises(ApplicationError) as refused:
        await environment.run(activity, Order("ledger", "sg-1"))
    assert refused.value.next_retry_delay == timedelta(seconds=again_s)


async def test_what_no_worker_has_a_tool_for_is_a_persons_after_so_many_attempts(
    realm: Realm, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempts of a turn know from each other how many lacked the tool, whoever makes them."""
    monkeypatch.setattr(module, "_MAKES_DO_AFTER", 1)
    async with realm.serving(reply_within_s=0.1) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.abort(saga_id)
        async with realm.working(tools=ToolRegistry()):
            await server.until(saga_id, lambda saga: bool(items(saga)))
    assert world.sent("release") == []
