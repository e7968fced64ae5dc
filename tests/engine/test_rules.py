"""Authors' rules: where they run, and what one that hangs does (SEMANTICS.md S9.3, S11.3)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from tests.world.reading import World
from tests.world.server import eventually, served

from saga_mcp.domain.values import Phase
from saga_mcp.domain.vector import Vector
from saga_mcp.tools import rules
from saga_tools.server import RegisteredInvariant

Judge = Callable[[dict[str, Any]], bool]


class Slow:
    """Stands in for what the rule `affordable` does: it waits for `go`."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.go = threading.Event()
        self.judge: Judge = lambda _: True

    def __call__(self, rule: RegisteredInvariant, results: str) -> bool:
        if rule.name != "affordable":
            return True
        found = json.loads(results)
        self.seen.append(found)
        self.go.wait(30)
        return self.judge(found)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Generator[Slow]:
    slow = Slow()
    monkeypatch.setattr(rules, "_holds", slow)
    yield slow
    slow.go.set()


async def test_a_rule_at_work_holds_up_neither_this_process_nor_another(
    world: World, database: Path, slow: Slow
) -> None:
    async with served(database) as server, served(database) as other:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(partial(server.call, "reserve", saga_id, item="a"))
            await eventually(lambda: bool(slow.seen))
            with anyio.fail_after(2):
                await other.begin()
                await server.begin()
            assert (await server.engine.saga(saga_id)).running == 1
            slow.go.set()
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert world.order == ["reserve(a)"]


async def test_a_rule_that_hangs_is_violated_and_gets_no_second_thread(
    world: World, database: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RULE_WITHIN_S", 0.1)
    async with served(database) as server:
        for item in "ab":
            reply = await server.call("reserve", item=item)
            saga = await server.rest(reply.saga_id)
            assert (saga.phase, saga.cause) == (Phase.COMPENSATED, "invariant:affordable")
        assert len(slow.seen) == 1
        slow.go.set()
        await eventually(lambda: "saga rule" not in {thread.name for thread in threading.enumerate()})
        assert (await server.call("reserve", item="c")).code == ""
        assert len(slow.seen) == 2
    assert world.standing == ["reserve(c)"]


async def test_siblings_cannot_slip_past_a_rule_that_both_together_violate(
    world: World, database: Path, slow: Slow
) -> None:
    """The first one's verdict is out when the second one ends: it is looked at again, with both."""
    slow.judge = lambda results: not {"reserve", "charge"} <= results.keys()
    async with served(database) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(partial(server.call, "reserve", saga_id, item="a"))
            calls.start_soon(partial(server.call, "charge", saga_id, cents=5))
            await eventually(lambda: len(slow.seen) == 2)
            assert [len(results) for results in slow.seen] == [1, 1]  # neither knows of the other
            slow.go.set()
        saga = await server.rest(saga_id)
        assert (saga.phase, saga.cause) == (Phase.COMPENSATED, "invariant:affordable")
    assert world.standing == []


async def test_a_rule_is_not_asked_once_the_saga_is_being_undone(world: World, database: Path, slow: Slow) -> None:
    slow.go.set()
    world.plan(reserve=["hang_after"])
    async with served(database) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(partial(server.call, "reserve", saga_id, item="a"))
            await eventually(lambda: bool(world.did("reserve")))
            calls.start_soon(partial(server.abort, saga_id))
            await server.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATING)
            world.go()
        await server.rest(saga_id)
    assert slow.seen == []
    assert world.standing == []


async def test_what_rules_judge_costs_no_more_in_a_long_saga_than_in_a_short_one(
    world: World, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterated: list[int] = []
    items = cast("Callable[[Vector[object]], Iterator[object]]", vars(Vector)["__iter__"])

    def counted(vector: Vector[object]) -> Iterator[object]:
        iterated.append(len(vector))
        return items(vector)

    async with served(database) as server:
        saga_id = await server.begin()
        monkeypatch.setattr(Vector, "__iter__", counted)
        costs = list[int]()
        for number in range(40):
            iterated.clear()
            await server.call("reserve", saga_id, item=f"i{number}")
            costs.append(sum(iterated))
    assert len(world.standing) == 40
    assert costs[30] == costs[10]
