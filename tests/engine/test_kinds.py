"""The point of no return, what follows it, and save-points (SEMANTICS.md S7)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.world.clock import NotingClock
from tests.world.reading import World
from tests.world.server import eventually, served

from saga_mcp.domain.errors import KindRefused, PivotPassed, SavepointNotFound, StepUnsettled
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.person_decisions import resolve_absent, resolve_landed, retry
from saga_mcp.domain.step_decisions import Landing
from saga_mcp.domain.values import ItemKind, OnError, Phase, StepState
from saga_mcp.engine.port import Caller
from saga_mcp.tools.declared import DeclaredRegistry


@pytest.mark.case(86)
async def test_after_the_pivot_there_is_no_way_back(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("send_mail", saga_id, to="bob")
        with pytest.raises(PivotPassed):
            await server.abort(saga_id)
        with pytest.raises(PivotPassed):
            await server.engine.savepoint(saga_id, "here")
        for tool, arguments in (("reserve", {"item": "b"}), ("send_mail", {"to": "eve"})):
            with pytest.raises(KindRefused):
                await server.call(tool, saga_id, **arguments)
        await server.call("notify", saga_id, to="bob")
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert world.order == ["reserve(a)", "send_mail(bob)", "notify(bob)"]


async def test_a_retriable_tool_may_only_follow_the_pivot(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        with pytest.raises(KindRefused):
            await server.call("notify", saga_id, to="bob")
        assert (await server.engine.saga(saga_id)).phase is Phase.ACTIVE
    assert world.sent() == []


async def test_a_pivot_waits_for_what_runs_before_it(world: World, database: Path) -> None:
    """S7.1."""
    async with served(database) as server:
        saga_id = await server.begin()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call("reserve", saga_id, item="a", mode="hang_before"))
            await eventually(lambda: len(world.sent("reserve")) == 1)
            with pytest.raises(StepUnsettled):
                await server.call("send_mail", saga_id, to="bob")
            world.go()
        await server.call("send_mail", saga_id, to="bob")
    assert world.order == ["reserve(a)", "send_mail(bob)"]


@pytest.mark.case(86)
async def test_a_pivot_without_effect_is_a_failed_step_like_any_other(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("send_mail", saga_id, to="bob", mode="err_before")
        assert await server.state(saga_id) == "compensated"
    assert world.standing == []


@pytest.mark.parametrize(("landed", "phase", "standing"), [
    (True, Phase.ACTIVE, ["reserve(a)", "send_mail(bob)"]),
    (False, Phase.COMPENSATED, ["send_mail(bob)"]),
])  # fmt: skip
@pytest.mark.case(86)
async def test_an_abort_waits_for_a_pivot_in_doubt(
    world: World,
    database: Path,
    landed: bool,  # noqa: FBT001 - a parameter of the test
    phase: Phase,
    standing: list[str],
) -> None:
    """S7.1: neither abort nor commit until it is settled; then the abort runs, or is void."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        reply = await server.call("send_mail", saga_id, to="bob", mode="err_after")
        assert reply.code == "outcome_unknown"
        saga = await server.abort(saga_id)
        assert (saga.phase, saga.abort_wanted is not None) == (Phase.ACTIVE, True)
        with pytest.raises(StepUnsettled):
            await server.call("reserve", saga_id, item="b")
        (item,) = await server.items(saga_id)
        assert (item.kind, item.step) == (ItemKind.IN_DOUBT, 2)
        who = {"by": "ada", "note": "asked bob"}
        if landed:
            await server.engine.decide_item(
                saga_id,
                lambda now, d: resolve_landed(now, 2, Landing(result="bob", undo=BoundUndo()), driving=d, **who),
            )
        else:
            await server.engine.decide_item(saga_id, lambda now, d: resolve_absent(now, 2, driving=d, **who))
        assert (await server.rest(saga_id)).phase is phase
    assert world.standing == standing


async def test_a_retriable_step_is_sent_until_it_succeeds_by_one_task(world: World, database: Path) -> None:
    """S7.2: its caller gets the answer of the attempt that succeeded."""
    world.plan(notify=["err_after", "err_before", "ok"])
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="bob")
        reply = await server.call("notify", saga_id, to="bob")
        assert reply.code == ""
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert len(world.sent("notify")) == 3
    assert len({line.key for line in world.sent("notify")}) == 1


class FirstWaitsLongest(NotingClock):
    """Whoever draws a delay first gets one, all others none."""

    def jitter(self, longest_s: float) -> float:
        super().jitter(longest_s)
        return 0.1 if len(self.drawn) == 1 else 0.0


async def test_a_retriable_step_is_left_to_the_task_that_has_it_in_hand(world: World, database: Path) -> None:
    """The driver sees the same step between two attempts; its caller waits for the answer of the task it asked."""
    world.plan(notify=["err_before", "ok"])
    async with served(database, clock=FirstWaitsLongest()) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="bob")
        reply = await server.call("notify", saga_id, to="bob")
        assert reply.code == ""
    assert len(world.sent("notify")) == 2


async def test_a_retriable_step_that_used_up_its_attempts_waits_for_a_person(world: World, database: Path) -> None:
    world.plan(notify=["err_before"])
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="bob")
        await server.call("notify", saga_id, to="bob")
        await server.rest(saga_id)
        (item,) = await server.items(saga_id)
        assert (item.kind, await server.state(saga_id)) == (ItemKind.RETRIABLE_EXHAUSTED, "needs_attention")
        assert len(world.sent("notify")) == 3
        world.plan(notify=["ok"])
        await server.engine.decide_item(saga_id, lambda now, d: retry(now, 2, by="ada", note="", driving=d))
        saga = await server.rest(saga_id)
        assert saga.step(2).state is StepState.SUCCEEDED
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert world.standing == ["send_mail(bob)", "notify(bob)"]


def _impatient(declared: DeclaredRegistry) -> DeclaredRegistry:
    tools = [
        replace(tool, pair=replace(tool.pair, timeout_s=0.1, hard_deadline_s=0.2))
        if tool.registered.name == "notify"
        else tool
        for tool in declared.tools
    ]
    return replace(declared, tools=tuple(tools))


@pytest.mark.parametrize("last", ["err_after", "hang_after"])
async def test_a_call_whose_attempts_are_used_up_is_not_sent_again_by_its_repeats(
    world: World, database: Path, last: str
) -> None:
    """A person has been asked by then: no attempt goes out that nobody has recorded, and nobody waits for one."""
    world.plan(notify=["err_after", "err_after", last])
    async with served(database, adjust=_impatient, reply_within_s=2.0) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="bob")
        call = partial(server.engine.call, "notify", {"to": "bob"}, saga_id=saga_id, step_key="k", caller=Caller())
        await call()
        saga = await server.rest(saga_id)
        assert (saga.step(2).landed, saga.step(2).exhausted) == (None, True)
        with pytest.raises(StepUnsettled, match="Nothing was sent"):
            await call()
        unkeyed = await server.call("notify", saga_id, to="bob")
        assert (unkeyed.code, unkeyed.step) == ("outcome_unknown", 2)
        assert (await server.engine.saga(saga_id)).step(2).attempts == len(world.sent("notify")) == 3


async def test_a_retriable_step_of_a_dead_process_is_sent_again_by_the_next(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="bob")
        with anyio.CancelScope() as request:
            async with anyio.create_task_group() as call:
                call.start_soon(lambda: server.call("notify", saga_id, to="bob", mode="hang_before"))
                await eventually(lambda: len(world.sent("notify")) == 1)
                request.cancel()
    world.go()
    async with served(database) as server:
        saga = await server.rest(saga_id)
        assert saga.step(2).state is StepState.SUCCEEDED
    assert world.order == ["send_mail(bob)", "notify(bob)"]
    assert len({line.key for line in world.sent("notify")}) == 1


# --- save-points (S7.3) ---------------------------------------------------------------------------------------------


async def test_an_abort_back_to_a_savepoint_keeps_what_came_before_and_reopens_the_saga(
    world: World, database: Path
) -> None:
    """Garcia-Molina and Salem 1987."""
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.engine.savepoint(saga_id, "mark")
        await server.call("reserve", saga_id, item="b")
        await server.call("hold", saga_id, item="c")
        saga = await server.engine.abort(saga_id, cause="agent", to_savepoint="mark")
        assert saga.phase is Phase.ACTIVE
        assert world.standing == ["reserve(a)"]
        await server.call("reserve", saga_id, item="d")
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATED
    assert world.order[3:] == ["unhold(c)", "release(b)", "reserve(d)", "release(d)", "release(a)"]


async def test_a_savepoint_is_refused_while_something_is_unsettled(world: World, database: Path) -> None:
    async with served(database, on_error=OnError.HOLD) as server:
        saga_id = await server.begin()
        with pytest.raises(SavepointNotFound):
            await server.engine.abort(saga_id, cause="agent", to_savepoint="nowhere")
        await server.call("wire", saga_id, cents=5, mode="err_after")
        with pytest.raises(StepUnsettled):
            await server.engine.savepoint(saga_id, "mark")
    assert world.standing == ["wire(5)"]


async def test_a_whole_abort_reaches_past_a_savepoint_that_is_being_rolled_back_to(
    world: World, database: Path
) -> None:
    """S5.1: target = min(target, new)."""
    world.plan(release=["hang_before"])
    async with served(database, reply_within_s=0.1) as server:
        saga_id = await server.begin()
        await server.call("hold", saga_id, item="a")
        await server.engine.savepoint(saga_id, "mark")
        await server.call("reserve", saga_id, item="b")
        await server.engine.abort(saga_id, cause="agent", to_savepoint="mark")
        await server.abort(saga_id)
        world.go()
        assert (await server.rest(saga_id)).phase is Phase.COMPENSATED
    assert world.standing == []
