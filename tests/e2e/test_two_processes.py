"""Two server processes on one database, which is how the main client starts them (DESIGN.md rule 7; CASES C27, C28)."""

from __future__ import annotations

import anyio
import pytest
from tests.e2e.product import Client, Product
from tests.world.server import eventually


@pytest.mark.case(27)
async def test_either_process_serves_a_saga_of_the_other(product: Product) -> None:
    async with product.serve() as one, product.serve() as two:
        saga_id = await one.begin()
        await one.call("reserve", item="a", saga_id=saga_id)
        assert len((await two.status(saga_id))["steps"]) == 1
        await two.call("reserve", item="b", saga_id=saga_id)
        await one.call("hold", item="c", saga_id=saga_id)
        assert (await two.call("saga_abort", saga_id=saga_id)).state == "compensated"
        assert (await one.status(saga_id))["state"] == "compensated"
    assert product.world.order[3:] == ["unhold(c)", "release(b)", "release(a)"]


@pytest.mark.case(14, 15)
async def test_a_second_process_leaves_a_long_step_of_the_first_alone(product: Product) -> None:
    async with product.serve() as one:
        saga_id = await one.begin()
        step = await one.ask("reserve", item="a", mode="hang_before", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("reserve")) == 1)
        async with product.serve() as two:
            assert (await two.status(saga_id))["steps"][0]["state"] == "intended"
            product.world.go()
            assert not (await one.reply_to(step)).is_error
            assert (await two.call("saga_commit", saga_id=saga_id)).state == "committed"
    assert product.world.order == ["reserve(a)"]


@pytest.mark.case(70)
async def test_what_a_killed_process_left_is_taken_over_by_the_other(product: Product) -> None:
    """Interrupted is not "running" for ever."""
    async with product.serve() as two:
        async with product.serve() as one:
            saga_id = await one.begin()
            await one.call("reserve", item="a", saga_id=saga_id)
            await one.ask("reserve", item="b", mode="hang_after", saga_id=saga_id)
            await eventually(lambda: len(product.world.did("reserve")) == 2)
            one.kill()
        status = await two.until(saga_id, "compensated")
        assert status["cause"]["code"] == "step_failed:2"
    assert product.world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


@pytest.mark.case(70)
async def test_an_interrupted_saga_can_be_operated(product: Product) -> None:
    """On hold: commit is refused naming the step, abort works."""
    product.configure('on_error = "hold"')
    async with product.serve() as one:
        saga_id = await one.begin()
        await one.ask("reserve", item="a", mode="hang_after", saga_id=saga_id)
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        one.kill()
        await one.ended.wait()
    async with product.serve() as two:
        status = await two.until(saga_id, "needs_attention")
        assert status["steps"][0]["state"] == "in_doubt"
        refused = await two.call("saga_commit", saga_id=saga_id)
        assert (refused.is_error, refused.code) == (True, "commit_refused")
        assert "step 1 reserve" in refused.text
        assert (await two.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.order == ["reserve(a)", "release(a)"]


@pytest.mark.case(28)
@pytest.mark.parametrize(
    "rounds", [pytest.param(15, id="everyday"), pytest.param(200, id="many", marks=pytest.mark.slow)]
)
@pytest.mark.timeout(300)
async def test_of_a_commit_and_an_abort_at_the_same_instant_exactly_one_wins(product: Product, rounds: int) -> None:
    async with product.serve() as one, product.serve() as two:
        for _ in range(rounds):
            saga_id = (await one.call("reserve", item="a")).saga_id
            commit = await one.ask("saga_commit", saga_id=saga_id)
            abort = await two.ask("saga_abort", saga_id=saga_id)
            committed, aborted = await one.reply_to(commit), await two.reply_to(abort)
            assert committed.is_error != aborted.is_error
            expected = "committed" if aborted.is_error else "compensated"
            assert (await one.status(saga_id))["state"] == expected
            undone = any(line.key == product.world.did("reserve")[-1].key for line in product.world.did("release"))
            assert undone == committed.is_error


@pytest.mark.slow
@pytest.mark.case(44)
async def test_parallel_steps_from_both_land_in_one_saga(product: Product) -> None:
    """Nobody is told that the database is locked."""
    async with product.serve() as one, product.serve() as two:
        saga_id = await one.begin()

        async def work(agent: Client, name: str) -> None:
            for number in range(15):
                reply = await agent.call("reserve", item=f"{name}{number}", saga_id=saga_id)
                assert not reply.is_error, reply.text

        async with anyio.create_task_group() as both:
            for agent, name in ((one, "x"), (two, "y"), (one, "z"), (two, "w")):
                both.start_soon(work, agent, name)
        assert (await two.call("saga_savepoint", saga_id=saga_id, name="all")).facts["steps"] == 60
        assert (await two.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.standing == []
    assert product.world.doubled == []
