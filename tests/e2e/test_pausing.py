"""A person stops all calls of a tool, and lets them go on, in the product as it is started."""

from __future__ import annotations

import json

import pytest
from tests.e2e.product import Product

pytestmark = pytest.mark.timeout(180)  # many commands one after the other


@pytest.mark.slow
async def test_a_paused_tool_is_not_called_by_any_server_until_a_person_resumes_it(product: Product) -> None:
    async with product.serve() as agent, product.serve() as other:
        saga = await agent.begin()
        await other.call("reserve", saga_id=saga, item="a")
        code, said = await product.run("pause", "--tool", "reserve", "--note", "it sells twice", "--by", "ann", "--yes")
        assert code == 0, said
        assert said.startswith('ledger.reserve is paused by ann, 0s ago ("it sells twice"): agents are refused')
        for client in (agent, other):
            refused = await client.call("reserve", saga_id=saga, item="b")
            assert (refused.code, refused.is_error) == ("tool_paused", True)
            assert refused.text.startswith('Nothing was sent: ann has paused reserve. They say: "it sells twice".')
        assert (await agent.call("hold", saga_id=saga, item="c")).code == ""
        for command in (("list",), ("attention",), ("doctor",), ()):
            _, said = await product.run(*command)
            assert "ledger.reserve is paused by ann" in said, command
        code, said = await product.run("resume", "--tool", "ledger.reserve", "--yes")
        assert (code, said) == (0, "ledger.reserve is called again.\n")
        assert (await other.call("reserve", saga_id=saga, item="b")).code == ""
        code, said = await product.run("resume", "--tool", "ledger.reserve", "--yes", "--json")
        assert (code, json.loads(said)["error"]["code"]) == (1, "not_paused")
    assert product.world.order == ["reserve(a)", "hold(c)", "reserve(b)"]


@pytest.mark.slow
async def test_a_rollback_waits_at_an_undo_that_calls_a_paused_tool_and_goes_on_when_it_is_resumed(
    product: Product,
) -> None:
    product.configure(saga="reply_within_s = 1")
    async with product.serve() as agent:
        saga = await agent.begin()
        await agent.call("reserve", saga_id=saga, item="a")
        await agent.call("charge", saga_id=saga, cents=5)
        await agent.call("reserve", saga_id=saga, item="b")
        code, said = await product.run("pause", "--tool", "ledger.refund", "--by", "ann", "--yes")
        assert code == 0, said
        aborted = await agent.call("saga_abort", saga_id=saga)
        assert aborted.state == "compensating"
        assert "the undo of step 2 charge waits, because ann has paused ledger.refund." in aborted.text
        assert product.world.order == ["reserve(a)", "charge(5)", "reserve(b)", "release(b)"]
        status = await agent.status(saga)
        assert status["next"][0].startswith("Tell the user: the undo of step 2 charge waits, because ann has paused")
        code, said = await product.run("show", saga)
        assert "waits: ledger.refund is paused by ann" in said
        agent.kill()
    async with product.serve() as agent:
        assert (await agent.status(saga))["state"] == "compensating"
        assert product.world.order == ["reserve(a)", "charge(5)", "reserve(b)", "release(b)"]
        code, said = await product.run("resume", "--tool", "ledger.refund", "--yes")
        assert code == 0, said
        assert (await agent.until(saga, "compensated"))["summary"] == "compensated: 3 undone, 0 open"
    assert product.world.order[4:] == ["refund(5)", "release(a)"]


@pytest.mark.slow
async def test_an_unknown_tool_is_refused_with_the_nearest_name_and_nothing_is_paused(product: Product) -> None:
    async with product.serve() as agent:
        await agent.call("reserve", item="a")
    code, said = await product.run("pause", "--tool", "reserv", "--yes")
    assert code == 2
    assert "There is no tool reserv in" in said
    assert "did you mean" in said.lower()
    _, said = await product.run("list", "--json")
    assert json.loads(said)["paused"] == []


@pytest.mark.slow
async def test_everything_that_a_dead_service_left_behind_tries_again_with_one_command(product: Product) -> None:
    product.world.plan(refund=["fail_before"], release=["give_up"])
    sagas: list[str] = []
    async with product.serve() as agent:
        for number in range(3):
            saga = await agent.begin()
            await agent.call("reserve", saga_id=saga, item=str(number))
            await agent.call("saga_abort", saga_id=saga)
            sagas.append(saga)
        doubtful = await agent.begin()
        await agent.call("charge", saga_id=doubtful, cents=7)
        await agent.call("saga_abort", saga_id=doubtful)
        await agent.until(doubtful, "needs_attention")
    product.world.plan(release=["ok"], refund=["ok"])
    code, said = await product.run("retry", "--all", "--tool", "ledger.unhold", "--yes")
    assert (code, "0 items let go on" in said) == (0, True), said
    code, said = await product.run("retry", "--all", "--tool", "release", "--note", "it is back", "--yes")
    assert (code, "3 items let go on" in said) == (0, True), said
    assert "1 undo in doubt left out" in said
    assert sorted(product.world.order[-3:]) == ["release(0)", "release(1)", "release(2)"]
    assert "refund(7)" not in product.world.order
    code, said = await product.run("retry", "--all", f"{doubtful}.1", "--yes")
    assert code == 2


@pytest.mark.slow
async def test_a_call_that_is_allowed_while_its_tool_is_paused_says_so_everywhere(product: Product) -> None:
    product.configure(saga="reply_within_s = 1", tools='[tools."ledger.reserve"]\napproval = true\n')
    async with product.serve() as agent:
        asked = await agent.call("reserve", item="a")
        saga = asked.saga_id
        await product.run("pause", "--tool", "reserve", "--by", "ann", "--yes")
        code, said = await product.run("approve", f"{saga}.1", "--yes")
        assert code == 0, said
        again = await agent.call("reserve", saga_id=saga, item="a")
        assert (again.code, "ann has paused reserve" in again.text) == ("tool_paused", True), again.text
        refused = await agent.call("saga_commit", saga_id=saga)
        assert "step 1 reserve was allowed and waits to be sent" in refused.text
        status = await agent.status(saga)
        assert status["next"][0].startswith("Tell the user: the allowed call of step 1 reserve waits, because ann")
        _, said = await product.run("show", f"{saga}.1")
        assert "and waits: ledger.reserve is paused by ann" in said
        assert product.world.order == []
        await product.run("resume", "--tool", "reserve", "--yes")
        await agent.at_rest(saga)
    assert product.world.order == ["reserve(a)"]


@pytest.mark.slow
async def test_what_only_reads_is_not_paused(product: Product) -> None:
    async with product.serve() as agent:
        await agent.call("reserve", item="a")
        code, said = await product.run("pause", "--tool", "balance", "--yes")
        assert (code, "only reads" in said) == (2, True), said
