"""Calls that a person has to allow: what is stored, what is sent, and what becomes of the question (S9.1)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AfterValidator
from tests.world.asking import asking
from tests.world.clock import ManualClock
from tests.world.reading import World
from tests.world.server import Server, served

from saga_mcp.domain import approvals
from saga_mcp.domain.errors import ApprovalRejected, CommitRefused, ItemRefused
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Cancelled, Phase, StepState
from saga_mcp.tools.declared import DeclaredRegistry
from saga_tools import ToolRegistry


async def allow(server: Server, saga_id: str, number: int, *, now: float = 0.0) -> Saga:
    return await server.engine.decide_item(
        saga_id, lambda saga, _: approvals.approve(saga, number, by="ada", note="", now=now)
    )


async def forbid(server: Server, saga_id: str, number: int, note: str = "") -> Saga:
    return await server.engine.decide_item(
        saga_id, lambda saga, driving: approvals.reject(saga, number, by="ada", note=note, driving=driving)
    )


@pytest.mark.case(80)
async def test_nothing_is_sent_before_a_person_allows_it_and_then_the_stored_call_runs(
    world: World, database: Path
) -> None:
    async with served(database, adjust=asking()) as server:
        reply = await server.call("charge", cents=5)
        assert (reply.code, reply.step, reply.answer) == ("approval_needed", 1, None)
        assert world.order == []
        assert [item.kind for item in await server.items(reply.saga_id)] == ["approval"]
        assert await server.state(reply.saga_id) == "active"
    async with served(database, adjust=asking()) as later:  # another process, another day
        await allow(later, reply.saga_id, 1)
        await later.until(reply.saga_id, lambda saga: saga.step(1).landed is True)
        assert world.order == ["charge(5)"]
        again = await later.call("charge", reply.saga_id, cents=5)
        assert (again.code, again.replayed, again.step) == ("", True, 1)
        await later.abort(reply.saga_id)
    assert world.order == ["charge(5)", "refund(5)"]


async def test_what_was_allowed_is_read_once_more_before_it_is_sent_and_not_twice(database: Path) -> None:
    read: list[str] = []
    paid: list[str] = []
    tools = ToolRegistry()

    def note(bill: str) -> str:
        read.append(bill)
        return bill

    @tools.tool(kind="pivot")
    def pay(bill: Annotated[str, AfterValidator(note)]) -> None:
        """Pay a bill."""
        paid.append(bill)

    async with served(database, tools=tools, adjust=asking(of="pay")) as server:
        reply = await server.call("pay", bill="b")
        assert (read, paid) == (["b"], [])
        await allow(server, reply.saga_id, 1)
        await server.until(reply.saga_id, lambda saga: saga.step(1).landed is True)
    assert (read, paid) == (["b", "b"], ["b"])


@pytest.mark.case(79)
async def test_an_allowance_is_for_one_call_with_these_arguments(world: World, database: Path) -> None:
    async with served(database, adjust=asking()) as server:
        saga_id = await server.begin()
        await server.call("charge", saga_id, cents=10)
        other = await server.call("charge", saga_id, cents=1000)
        assert (other.code, other.step) == ("approval_needed", 2)
        await allow(server, saga_id, 1)
        await server.until(saga_id, lambda saga: saga.step(1).landed is True)
        told = await server.call("charge", saga_id, cents=10)
        assert (told.code, told.step) == ("", 1)
        await server.call("reserve", saga_id, item="a")  # goes on from that answer
        new = await server.call("charge", saga_id, cents=10)
        assert (new.code, new.step) == ("approval_needed", 4)
    assert world.order == ["charge(10)", "reserve(a)"]


async def test_the_same_call_again_asks_the_same_question(world: World, database: Path) -> None:
    async with served(database, adjust=asking()) as server:
        first = await server.call("charge", cents=5)
        again = await server.call("charge", first.saga_id, cents=5)
        assert (again.code, again.step) == ("approval_needed", 1)
        assert len((await server.engine.saga(first.saga_id)).steps) == 1
    assert world.order == []


async def test_a_rejection_lasts_and_says_why(world: World, database: Path) -> None:
    async with served(database, adjust=asking()) as server:
        reply = await server.call("charge", cents=5)
        await forbid(server, reply.saga_id, 1, "not this customer")
    async with served(database, adjust=asking()) as later:
        with pytest.raises(ApprovalRejected, match="not this customer"):
            await later.call("charge", reply.saga_id, cents=5)
        with pytest.raises(ItemRefused, match="Nothing waits"):
            await allow(later, reply.saga_id, 1)
        committed = await later.commit(reply.saga_id)
        assert committed.phase is Phase.COMMITTED
    assert world.order == []


async def test_a_condition_says_which_calls_need_a_person(world: World, database: Path) -> None:
    async with served(database, adjust=asking("${args.cents > 100}")) as server:
        saga_id = await server.begin()
        assert (await server.call("charge", saga_id, cents=100)).code == ""
        assert (await server.call("charge", saga_id, cents=101)).code == "approval_needed"
    assert world.order == ["charge(100)"]


async def test_a_condition_without_a_value_asks(world: World, database: Path) -> None:
    async with served(database, adjust=asking("${args.missing > 100}")) as server:
        assert (await server.call("charge", cents=1)).code == "approval_needed"
    assert world.order == []


async def test_other_calls_go_on_around_a_question_and_commit_waits_for_it(world: World, database: Path) -> None:
    async with served(database, adjust=asking()) as server:
        saga_id = await server.begin()
        await server.call("charge", saga_id, cents=5)
        assert (await server.call("reserve", saga_id, item="a")).code == ""
        with pytest.raises(CommitRefused, match=r"step 1 ledger\.charge waits for an approval"):
            await server.commit(saga_id)
    assert world.order == ["reserve(a)"]


async def test_an_abort_closes_the_question(world: World, database: Path) -> None:
    async with served(database, adjust=asking()) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("charge", saga_id, cents=5)
        saga = await server.abort(saga_id)
        assert (saga.phase, saga.step(2).cancelled) == (Phase.COMPENSATED, Cancelled.ABORTED)
        with pytest.raises(ItemRefused):
            await allow(server, saga_id, 2)
    assert world.order == ["reserve(a)", "release(a)"]


async def test_an_allowed_call_that_fails_aborts_its_saga(world: World, database: Path) -> None:
    async with served(database, adjust=asking()) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        await server.call("charge", saga_id, cents=5, mode="err_before")
        await allow(server, saga_id, 2)
        saga = await server.rest(saga_id)
        assert (saga.phase, saga.cause) == (Phase.COMPENSATED, "step_failed:2")
    assert world.order == ["reserve(a)", "release(a)"]


async def test_a_question_nobody_answers_ends_and_can_be_asked_again(world: World, database: Path) -> None:
    clock = ManualClock()
    async with served(database, adjust=asking(), clock=clock, approval_expires_s=100.0) as server:
        reply = await server.call("charge", cents=5)
        clock.advance(101.0)
        saga = await server.until(reply.saga_id, lambda saga: saga.step(1).state is StepState.CANCELLED)
        assert saga.step(1).cancelled == Cancelled.EXPIRED
        again = await server.call("charge", reply.saga_id, cents=5)
        assert (again.code, again.step) == ("approval_needed", 2)
    assert world.order == []


async def test_an_answer_that_comes_too_late_allows_nothing(world: World, database: Path) -> None:
    async with served(database, adjust=asking(), approval_expires_s=100.0) as server:
        reply = await server.call("charge", cents=5)
        with pytest.raises(ItemRefused, match="not allowed in time"):
            await allow(server, reply.saga_id, 1, now=1e12)
    assert world.order == []


async def test_a_pivot_that_was_allowed_waits_for_what_is_unsettled_before_it(world: World, database: Path) -> None:
    async with served(database, adjust=asking(of="send_mail"), reply_within_s=0.2) as server:
        saga_id = await server.begin()
        await server.call("send_mail", saga_id, to="ada")
        slow = await server.call("reserve", saga_id, item="a", mode="hang_after")
        assert slow.code == "still_running"
        await allow(server, saga_id, 1)
        assert (await server.engine.saga(saga_id)).step(1).state is StepState.AWAITING_APPROVAL
        world.go()
        await server.until(saga_id, lambda saga: saga.step(1).landed is True)
    assert world.order == ["reserve(a)", "send_mail(ada)"]


async def test_a_call_whose_tool_is_gone_by_then_is_never_sent(world: World, database: Path) -> None:
    def without(declared: DeclaredRegistry) -> DeclaredRegistry:
        return replace(declared, tools=tuple(tool for tool in declared.tools if tool.registered.name != "charge"))

    async with served(database, adjust=asking()) as server:
        reply = await server.call("charge", cents=5)
    async with served(database, adjust=without) as later:
        await allow(later, reply.saga_id, 1)
        saga = await later.until(reply.saga_id, lambda saga: saga.step(1).state is StepState.CANCELLED)
        assert (saga.step(1).cancelled, saga.step(1).note) == (
            Cancelled.REFUSED,
            "ledger.charge is not available in this config",
        )
    assert world.order == []


async def test_an_allowed_call_that_finds_its_resource_held_is_tried_less_and_less_often(
    world: World, database: Path
) -> None:
    def about_one_desk(declared: DeclaredRegistry) -> DeclaredRegistry:
        asked = asking()(declared)
        tools = [replace(tool, pair=replace(tool.pair, resource="desk")) for tool in asked.tools]
        return replace(asked, tools=tuple(tools))

    clock = ManualClock()
    async with served(database, adjust=about_one_desk, clock=clock) as server:
        holder = await server.begin()
        await server.call("reserve", holder, item="a")
        waiting = await server.call("charge", cents=5)
        await allow(server, waiting.saga_id, 1)
        for wait_s in (2.0, 4.0, 8.0, 10.0, 10.0):
            await clock.asleep_for(wait_s)
            clock.advance(wait_s)
        await clock.asleep_for(10.0)
        await server.commit(holder)
        clock.advance(10.0)
        await server.until(waiting.saga_id, lambda saga: saga.step(1).landed is True)
    assert world.order == ["reserve(a)", "charge(5)"]
