"""Cancellation, a closed stdin, and what is left for the next start (DESIGN.md rule 6; SEMANTICS.md S12.1)."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import anyio
import psutil
import pytest
from tests.e2e.product import Product, ServerDied
from tests.world.server import eventually


@pytest.mark.case(99)
async def test_an_idle_server_ends_with_its_client(product: Product) -> None:
    async with product.serve() as agent:
        await agent.call("reserve", item="a")
        await agent.call("hold", item="b")
        children = psutil.Process(agent.raw.process.pid).children()
        await agent.close_stdin()
        assert await agent.exits(3) == 0
        assert not any(child.is_running() for child in children)


@pytest.mark.slow
@pytest.mark.case(99)
async def test_a_server_that_is_undoing_finishes_that_undo_and_leaves_the_rest_to_the_next(product: Product) -> None:
    product.world.plan(release=["hang_before"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for item in "abc":
            await agent.call("reserve", item=item, saga_id=saga_id)
        await agent.ask("saga_abort", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("release")) == 1)
        await agent.close_stdin()
        await anyio.sleep(0.3)  # the server must not take this for a reason to drop the undo
        product.world.go()
        assert await agent.exits(11) == 0
    assert len(product.world.did("release")) == 1
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    assert [line.args["item"] for line in product.world.sent("release")] == ["c", "b", "a"]


@pytest.mark.slow
@pytest.mark.case(99, 100)
async def test_a_hung_thread_does_not_keep_the_server_alive(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.ask("hold", item="a", mode="hang_after", saga_id=saga_id)
        await eventually(lambda: len(product.world.did("hold")) == 1)
        await agent.close_stdin()
        assert await agent.exits(14) == 0
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    assert product.world.order == ["hold(a)", "unhold(a)"]


@pytest.mark.slow
async def test_sigterm_ends_it_in_time_and_the_next_start_settles_what_ran(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.ask("reserve", item="a", mode="hang_after", saga_id=saga_id)
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        agent.raw.process.terminate()
        assert await agent.exits(4) == 0
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    assert product.world.order == ["reserve(a)", "release(a)"]


@pytest.mark.case(38, 40)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "rounds", [pytest.param(25, id="everyday"), pytest.param(300, id="many", marks=pytest.mark.slow)]
)
async def test_calls_and_aborts_cancelled_at_random_moments_leave_nothing_behind(product: Product, rounds: int) -> None:
    """No cancelled request is answered, no work is lost."""
    chance = random.Random(38)  # noqa: S311 - a test
    async with product.serve() as agent:
        for number in range(rounds):
            saga_id = await agent.begin()
            cancelled: list[int] = []
            for name, arguments in (
                ("reserve", {"item": f"{number}", "mode": "0.01"}),
                ("hold", {"item": f"{number}", "mode": "0.01"}),
                ("saga_abort", {}),
            ):
                request = await agent.ask(name, saga_id=saga_id, **arguments)
                await anyio.sleep(chance.uniform(0, 0.02))
                if not agent.replies_to(request):
                    await agent.cancel(request)
                    cancelled.append(request)
            known = {request: len(agent.replies_to(request)) for request in cancelled}
            await agent.call("saga_abort", saga_id=saga_id)
            assert (await agent.at_rest(saga_id))["state"] == "compensated"
            # A reply that was on its way when the cancellation was sent is legal; one more than one is not.
            assert all(len(agent.replies_to(request)) <= max(1, was) for request, was in known.items())
    assert product.world.standing == []
    assert product.world.doubled == []


@pytest.mark.case(43, 99)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="everyday"), pytest.param(80, id="many", marks=pytest.mark.slow)]
)
async def test_a_client_that_goes_at_a_random_moment_leaves_nothing_behind(tmp_path: Path, rounds: int) -> None:
    """End of file in the middle of calls and of aborts."""
    chance = random.Random(99)  # noqa: S311 - a test
    for number in range(rounds):
        folder = tmp_path / str(number)
        folder.mkdir()
        product = Product(folder)
        async with product.serve() as agent:
            saga_id = await agent.begin()
            with contextlib.suppress(ServerDied):
                for item in "ab":
                    await agent.ask("reserve", item=item, mode="0.02", saga_id=saga_id)
                    await anyio.sleep(chance.uniform(0, 0.05))
                await agent.ask("saga_abort", saga_id=saga_id)
                await anyio.sleep(chance.uniform(0, 0.05))
            await agent.close_stdin()
            assert await agent.exits(11) == 0
        async with product.serve() as agent:
            await agent.at_rest(saga_id)
            await agent.call("saga_abort", saga_id=saga_id)
            assert (await agent.at_rest(saga_id))["state"] == "compensated"
        assert product.world.standing == [], product.world.order
        assert product.world.doubled == []
