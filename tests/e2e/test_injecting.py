"""Failures that a team injects into its own server, to see what its compensations do (`serve --inject`)."""

from __future__ import annotations

import pytest
from tests.e2e.product import Product, ServerDied

MARK = "[failures are injected on purpose here: step=hold:"


@pytest.mark.parametrize(
    ("when", "order"),
    [
        ("before", ["reserve(a)", "release(a)"]),
        ("after", ["reserve(a)", "hold(b)", "unhold(b)", "release(a)"]),
    ],
)
async def test_a_failure_around_a_real_call_is_undone_and_every_reply_says_that_it_was_asked_for(
    product: Product, when: str, order: list[str]
) -> None:
    async with product.serve("--inject", f"step=hold:{when}") as agent:
        first = await agent.call("reserve", item="a")
        assert first.text.endswith(f"{MARK}{when}]")
        failed = await agent.call("hold", saga_id=first.saga_id, item="b")
        assert "injected failure" in failed.text
        assert failed.text.endswith(f"{MARK}{when}]")
        await agent.at_rest(first.saga_id)
        assert product.world.order == order
        again = await agent.call("hold", item="c")  # once
        assert again.code == ""
    assert product.world.standing == ["hold(c)"]


async def test_a_crash_is_a_real_one_and_the_next_server_undoes(product: Product) -> None:
    async with product.serve("--inject", "step=charge:crash") as agent:
        first = await agent.call("reserve", item="a")
        with pytest.raises(ServerDied):
            await agent.call("charge", saga_id=first.saga_id, cents=5)
    async with product.serve() as agent:
        reply = await agent.call("saga_abort", saga_id=first.saga_id)
        assert "injected" not in reply.text
        await agent.until(first.saga_id, "compensated")
    assert product.world.standing == []


async def test_a_call_that_hangs_after_its_work_is_in_doubt(product: Product) -> None:
    product.configure("reply_within_s = 1.0", '[tools."ledger.charge"]\ntimeout_s = 0.5\nhard_deadline_s = 1.0\n')
    async with product.serve("--inject", "step=charge:hang") as agent:
        reply = await agent.call("charge", cents=5)
        assert reply.code in {"still_running", "outcome_unknown"}
        await agent.at_rest(reply.saga_id)
    assert product.world.doubled == []


async def test_a_rate_fails_some_calls_and_none_is_lost(product: Product) -> None:
    async with product.serve("--inject", "step=reserve:after:0.5") as agent:
        replies = [await agent.call("reserve", item=str(number)) for number in range(20)]
        for reply in replies:
            await agent.at_rest(reply.saga_id)
        codes = {reply.code for reply in replies}
        kept = sorted(reply.structured["item"] for reply in replies if not reply.code)
    assert codes == {"", "step_failed"}
    assert sorted(product.world.standing) == sorted(f"reserve({item})" for item in kept)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("charge:after", "write it as step=TOOL:before|after|hang|crash[:once|:RATE]"),
        ("step=charge:later", "write it as step=TOOL"),
        ("step=charge:after:2", "2 is no rate"),
        ("step=chrage:after", "there is no tool chrage"),
    ],
)
async def test_what_cannot_be_injected_is_a_wrong_command_line(product: Product, words: str, problem: str) -> None:
    code, said = await product.run("serve", "--inject", words)
    assert (code, problem in said) == (2, True), said
    assert product.world.sent() == []
