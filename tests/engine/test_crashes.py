"""The process dies around every durable write of a saga, or cannot learn of it (DESIGN.md rule 6; CASES C69).

The outside world must end as if nothing had happened: everything of an aborted saga undone, nothing done twice. Where
nobody can know what a call did, the saga says so of exactly that step, and once a person has looked, it ends the same
way.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import pytest
from tests.world.asking import asking
from tests.world.failing import DoubtfulLog, DyingLog, Fault
from tests.world.reading import UNDOES, World
from tests.world.server import Server, served

from saga_mcp.domain.approvals import approve
from saga_mcp.domain.attention import Item
from saga_mcp.domain.errors import LogUnavailable, Refused
from saga_mcp.domain.person_decisions import resolve_absent, resolve_landed, resolve_undone, retry
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import Landing
from saga_mcp.log.port import SagaLog

Scenario = Callable[[Server, str], Awaitable[None]]


async def one_after_the_other(tools: tuple[str, str, str], server: Server, saga_id: str) -> None:
    for tool in tools:
        await server.call(tool, saga_id, **_arguments(tool))
    await server.abort(saga_id)


async def overlapping_then_a_failure(tools: tuple[str, str, str], server: Server, saga_id: str) -> None:
    """Two parallel steps, one failure, and the abort that follows from it."""
    async with anyio.create_task_group() as both:
        for tool in tools[:2]:
            both.start_soon(partial(server.call, tool, saga_id, **_arguments(tool)))
    await server.call(tools[2], saga_id, mode="err_before", **_arguments(tools[2]))
    await server.abort(saga_id)


async def undo_that_fails_at_first(tools: tuple[str, str, str], server: Server, saga_id: str) -> None:
    World(Path(os.environ["LEDGER"])).plan(
        release=["err_before", "err_after", "ok"], unhold=["err_after", "ok"], refund=["err_before", "ok"]
    )
    await one_after_the_other(tools, server, saga_id)


async def several_parts(tools: tuple[str, str, str], server: Server, saga_id: str) -> None:
    del tools
    await server.call("reserve_many", saga_id, items=["a", "b", "c"], mode="err_after")
    await server.abort(saga_id)


async def allowed_by_a_person(tools: tuple[str, str, str], server: Server, saga_id: str) -> None:
    for tool in tools[:2]:
        await server.call(tool, saga_id, **_arguments(tool))
    await server.engine.decide_item(saga_id, lambda saga, _: approve(saga, 2, by="ada", note="", now=0.0))
    await server.rest(saga_id)
    await server.call(tools[2], saga_id, **_arguments(tools[2]))
    await server.abort(saga_id)


BOOKS_BY_LEAVE = asking(of="book")
"""A person has to allow each booking."""


def _arguments(tool: str) -> dict[str, object]:
    return {"cents": 5} if tool in {"charge", "wire"} else {"item": "a"}


SCENARIOS = pytest.mark.parametrize(
    ("scenario", "tools", "doubtful"),
    [
        pytest.param(one_after_the_other, ("reserve", "hold", "reserve"), False, id="sequence"),
        pytest.param(overlapping_then_a_failure, ("reserve", "hold", "reserve"), False, id="overlapping"),
        pytest.param(
            undo_that_fails_at_first, ("reserve", "hold", "reserve"), False, id="failing-undos", marks=pytest.mark.slow
        ),
        pytest.param(several_parts, ("", "", ""), False, id="parts", marks=pytest.mark.slow),
        pytest.param(allowed_by_a_person, ("reserve", "book", "hold"), False, id="allowed", marks=pytest.mark.slow),
        pytest.param(one_after_the_other, ("charge", "reserve", "charge"), True, id="probed"),
        pytest.param(
            one_after_the_other, ("wire", "reserve", "wire"), True, id="nobody-can-know", marks=pytest.mark.slow
        ),
        pytest.param(
            overlapping_then_a_failure,
            ("wire", "charge", "wire"),
            True,
            id="overlapping-nobody-can-know",
            marks=pytest.mark.slow,
        ),
    ],
)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("stored", [False, True], ids=["before-it-is-stored", "after-it-is-stored"])
@SCENARIOS
async def test_a_death_around_any_durable_write_leaves_nothing_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[tuple[str, str, str], Server, str], Awaitable[None]],
    tools: tuple[str, str, str],
    doubtful: bool,  # noqa: FBT001 - a parameter of the test
    stored: bool,  # noqa: FBT001 - see above
) -> None:
    at = 0
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        world = World(folder / "world.jsonl")
        monkeypatch.setenv("LEDGER", str(world.file))
        saga_id = await _run_until_death(folder / "saga.db", partial(scenario, tools), at=at, stored=stored)
        if saga_id is None:
            break
        async with served(folder / "saga.db", probe_for_s=0.5, adjust=BOOKS_BY_LEAVE) as successor:
            await _finish(successor, world, saga_id, doubtful=doubtful)
        assert world.standing == [], f"died at append {at}: {world.order}"
        assert world.doubled == [], f"died at append {at}: {world.order}"
        assert all(len(keys) == 1 for keys in world.undo_keys.values()), f"died at append {at}: {world.undo_keys}"
    assert at > 6  # the scenario has been cut at every append


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
@SCENARIOS
async def test_an_append_that_nobody_can_be_sure_of_leaves_nothing_behind_in_a_process_that_lives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[tuple[str, str, str], Server, str], Awaitable[None]],
    tools: tuple[str, str, str],
    doubtful: bool,  # noqa: FBT001 - a parameter of the test
    fault: Fault,
) -> None:
    """S10.1: nothing stays under way for ever, nothing is sent twice, and nothing that was sent counts as not sent."""
    at = 0
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        world = World(folder / "world.jsonl")
        monkeypatch.setenv("LEDGER", str(world.file))
        logs: list[DoubtfulLog] = []

        def doubted(log: SagaLog, at: int = at, logs: list[DoubtfulLog] = logs) -> SagaLog:
            logs.append(DoubtfulLog(log, fault, at=at + 1, unreadable=1))  # the saga's opening is the first append
            return logs[0]

        async with served(folder / "saga.db", wrap=doubted, probe_for_s=0.5, adjust=BOOKS_BY_LEAVE) as server:
            saga_id = await server.begin()
            with suppress_refusals():
                await scenario(tools, server, saga_id)
            await _finish(server, world, saga_id, doubtful=doubtful)
            if not logs[0].met:
                break
        assert world.standing == [], f"{logs[0].met} at append {at}: {world.order}"
        assert world.doubled == [], f"{logs[0].met} at append {at}: {world.order}"
        assert all(len(keys) == 1 for keys in world.undo_keys.values()), f"at append {at}: {world.undo_keys}"
    assert at > 6  # the scenario has been cut at every append


@contextmanager
def suppress_refusals() -> Generator[None]:
    """What a log denies, or a saga that is aborted refuses, ends a scenario early and is not what is tested."""
    try:
        yield
    except* (LogUnavailable, Refused):
        pass


async def _run_until_death(database: Path, scenario: Scenario, *, at: int, stored: bool) -> str | None:
    """Run the scenario in a process that dies; the saga it leaves, or None where it came to its end alive."""
    logs: list[DyingLog] = []

    def dying(log: SagaLog) -> SagaLog:
        logs.append(DyingLog(log, at=at + 1, stored=stored))  # the saga's opening is the first append
        return logs[0]

    async with served(database, wrap=dying, probe_for_s=0.5, adjust=BOOKS_BY_LEAVE) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as life:

            async def death() -> None:
                await logs[0].died.wait()
                life.cancel_scope.cancel()

            life.start_soon(death)
            await scenario(server, saga_id)
            await server.rest(saga_id)
            life.cancel_scope.cancel()
            return None
        return saga_id


async def _finish(successor: Server, world: World, saga_id: str, *, doubtful: bool) -> None:
    await successor.rest(saga_id)
    await successor.abort(saga_id)
    for _ in range(4):
        saga = await successor.rest(saga_id)
        found = await successor.items(saga_id)
        if not found:
            break
        assert doubtful, (found, world.order)
        (item,) = found
        assert item.kind in {"in_doubt", "undo_in_doubt"}
        await _settle_by_looking(successor, world, saga, item)
    assert await successor.state(saga_id) == "compensated"


async def _settle_by_looking(server: Server, world: World, saga: Saga, item: Item) -> None:
    """A person looks at the outside world and says what is there."""
    step = saga.step(item.step)
    tool = step.tool.rpartition(".")[2]
    undo = next(name for name, forward in UNDOES.items() if forward == tool)
    key = saga.key_of(item.step)
    landed = any(line.key == key for line in world.did(tool))
    undone = any(line.key == key for line in world.did(undo))
    who = {"by": "ada", "note": "looked"}
    if item.kind == "undo_in_doubt":
        verb = resolve_undone if undone else retry
        await server.engine.decide_item(saga.id, lambda now, d: verb(now, item.step, driving=d, **who))
    elif landed:
        await server.engine.decide_item(
            saga.id,
            lambda now, d: resolve_landed(
                now, item.step, Landing(result=None, undo=d.bind(now.step(item.step))), driving=d, **who
            ),
        )
    else:
        await server.engine.decide_item(saga.id, lambda now, d: resolve_absent(now, item.step, driving=d, **who))
