"""What an agent meets over real stdio, as the public failure reports tell it (CASES.md)."""

from __future__ import annotations

import sys

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client as SdkClient
from tests.e2e.product import COMMAND, Product
from tests.world.server import eventually


async def test_a_saga_is_kept_or_undone(product: Product) -> None:
    async with product.serve() as agent:
        kept = await agent.call("reserve", item="a")
        assert not kept.is_error
        assert (await agent.call("saga_commit", saga_id=kept.saga_id)).state == "committed"
        taken_back = await agent.call("reserve", item="b")
        assert (await agent.call("saga_abort", saga_id=taken_back.saga_id)).state == "compensated"
    assert product.world.standing == ["reserve(a)"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdk_client_of_either_era_can_use_it(product: Product, mode: str) -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND[1:], "serve", "--config", str(product.config)], env=product.world.env
    )
    with anyio.fail_after(20):
        async with SdkClient(parameters, mode=mode) as client:
            result = await client.call_tool("reserve", {"item": "a"})
            assert result.meta is not None
            saga_id = result.meta["saga"]["id"]
            await client.call_tool("charge", {"cents": 5, "saga_id": saga_id})
            failed = await client.call_tool("reserve", {"item": "b", "mode": "err_before", "saga_id": saga_id})
            assert failed.is_error
            assert failed.meta is not None
            assert failed.meta["saga"]["state"] == "compensated"
    assert product.world.order == ["reserve(a)", "charge(5)", "refund(5)", "release(a)"]


@pytest.mark.case(26)
async def test_after_a_rollback_the_error_that_caused_it_can_still_be_read(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        failed = await agent.call("reserve", item="b", mode="err_before", saga_id=saga_id)
        assert failed.text.startswith("NoEffect: planned: nothing was done")
        status = await agent.status(saga_id)
    assert status["state"] == "compensated"
    assert "planned: nothing was done" in status["cause"]["error"]
    assert [step["undo"] for step in status["steps"] if step["state"] == "compensated"] == ["done"]


@pytest.mark.slow
@pytest.mark.case(34)
async def test_abort_waits_for_a_running_step_and_says_so(product: Product) -> None:
    product.configure("reply_within_s = 0.3")
    async with product.serve() as agent:
        saga_id = await agent.begin()
        step = await agent.ask("reserve", item="a", mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("reserve")) == 1)
        aborting = await agent.call("saga_abort", saga_id=saga_id)
        assert aborting.state == "compensating"
        assert (await agent.reply_to(step)).is_error
        assert product.world.sent("release") == []
        product.world.go()
        await agent.until(saga_id, "compensated")
    assert product.world.order == ["reserve(a)", "release(a)"]


@pytest.mark.case(37)
async def test_a_cancelled_thread_runs_to_its_end_and_is_undone_after_it(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        step = await agent.ask("hold", item="a", mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("hold")) == 1)
        await agent.cancel(step)
        abort = await agent.ask("saga_abort", saga_id=saga_id)
        await agent.until(saga_id, "compensating")
        assert product.world.did() == []
        product.world.go()
        assert (await agent.reply_to(abort)).state == "compensated"
        assert agent.replies_to(step) == []
    assert product.world.order == ["hold(a)", "unhold(a)"]


@pytest.mark.case(38)
async def test_a_cancelled_abort_is_carried_through(product: Product) -> None:
    product.world.plan(release=["hang_before"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for item in "abc":
            await agent.call("reserve", item=item, saga_id=saga_id)
        abort = await agent.ask("saga_abort", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("release")) == 1)
        await agent.cancel(abort)
        product.world.go()
        await agent.until(saga_id, "compensated")
        assert agent.replies_to(abort) == []
    assert product.world.standing == []


@pytest.mark.case(40)
async def test_a_cancelled_call_is_never_answered(product: Product) -> None:
    """A strict host drops the connection on an answer that it no longer expects."""
    async with product.serve() as agent:
        saga_id = await agent.begin()
        step = await agent.ask("reserve", item="a", mode="hang_after", saga_id=saga_id)
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        await agent.cancel(step)
        product.world.go()
        status = await agent.at_rest(saga_id)
        assert [entry["state"] for entry in status["steps"]] == ["succeeded"]
        await agent.close_stdin()
        assert await agent.exits(5) == 0
        await agent.ended.wait()
        assert agent.replies_to(step) == []


@pytest.mark.case(54, 51)
@pytest.mark.parametrize("what", ["decimal", "datetime", "bytes", "set", "big"])
async def test_a_result_that_json_does_not_know_reaches_agent_log_and_undo_alike(product: Product, what: str) -> None:
    async with product.serve() as agent:
        reply = await agent.call("measure", what=what)
        assert not reply.is_error
        assert (await agent.call("saga_abort", saga_id=reply.saga_id)).state == "compensated"
    undone = product.world.did("unmeasure")[0].args["result"]
    assert reply.structured["result"] == undone


@pytest.mark.case(54)
async def test_a_result_that_json_cannot_hold_is_shown_without_it_and_no_undo_is_built_from_it(
    product: Product,
) -> None:
    async with product.serve() as agent:
        reply = await agent.call("measure", what="nan")
        assert (reply.is_error, reply.structured["result"]) == (False, None)
        assert (await agent.call("saga_abort", saga_id=reply.saga_id)).state == "needs_attention"
    assert product.world.did("unmeasure") == []


@pytest.mark.case(56)
async def test_a_misspelt_saga_id_argument_opens_nothing(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        reply = await agent.call("reserve", item="a", saga=saga_id)
        assert (reply.is_error, reply.code) == (True, "invalid_arguments")
        assert '"saga"' in reply.text
        assert len((await agent.call("saga_status")).structured["sagas"]) == 1
    assert product.world.sent() == []


@pytest.mark.case(78)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("reserve", {}),
        ("reserve", {"item": 5}),
        ("nonsense", {"item": "a"}),
        ("saga_commit", {"saga_id": "sg-nonsense"}),
        ("saga_abort", {"saga_id": "sg-00000000000000000000000000v"}),
    ],
)
async def test_a_malformed_call_aborts_nothing(product: Product, tool: str, arguments: dict[str, object]) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        reply = await agent.call(tool, **({"saga_id": saga_id} if tool == "reserve" else {}), **arguments)
        assert reply.is_error
        status = await agent.status(saga_id)
        assert (status["state"], len(status["steps"])) == ("active", 1)
    assert product.world.standing == ["reserve(a)"]


@pytest.mark.slow
@pytest.mark.case(59)
async def test_five_aborts_at_once_from_two_processes_are_one_rollback(product: Product) -> None:
    """With the policy's own abort under way."""
    product.configure("reply_within_s = 10.0")
    product.world.plan(release=["hang_before"])
    async with product.serve() as one, product.serve() as two:
        saga_id = await one.begin()
        for item in "abc":
            await one.call("reserve", item=item, saga_id=saga_id)
        failing = await one.ask("reserve", item="d", mode="err_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("release")) == 1)
        aborts = [(agent, await agent.ask("saga_abort", saga_id=saga_id)) for agent in (one, two, one, two, one)]
        product.world.go()
        replies = [await agent.reply_to(abort) for agent, abort in aborts]
        assert {reply.state for reply in replies} == {"compensated"}
        assert (await one.reply_to(failing)).state == "compensated"
    assert [line.args["item"] for line in product.world.sent("release")] == ["c", "b", "a"]


@pytest.mark.slow
@pytest.mark.case(104)
async def test_no_reply_takes_longer_than_its_limit(product: Product) -> None:
    product.configure("reply_within_s = 0.3")
    product.world.plan(release=["hang_before"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        slow = await agent.ask("reserve", item="a", mode="hang_before", saga_id=saga_id)
        first = await agent.reply_to(slow, within_s=3)
        assert (first.is_error, first.code) == (True, "still_running")
        thread = await agent.ask("balance", mode="hang_after")
        assert (await agent.reply_to(thread, within_s=3)).is_error
        product.world.go()
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        await agent.at_rest(saga_id)
        assert (await agent.call("saga_abort", saga_id=saga_id)).saga_id == saga_id
        await agent.until(saga_id, "compensated")
