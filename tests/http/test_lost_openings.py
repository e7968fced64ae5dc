"""A call without `saga_id` that is sent again over HTTP, where its answer was lost or it still runs (S8.3)."""

from __future__ import annotations

import anyio
import pytest
from tests.e2e.product import Product
from tests.http.people import TOKENS, share
from tests.http.serving import HEADERS, Agent, Answer, agent, bearing, posted, serving, web
from tests.world.server import eventually


async def test_it_joins_the_call_that_still_runs(product: Product) -> None:
    share(product)
    async with serving(product) as server, agent(server.url, TOKENS["alice"]) as alice:
        async with web() as http, anyio.create_task_group() as tasks:
            call = posted("reserve", item="a", mode="hang_before")
            headers = {**HEADERS, **bearing(TOKENS["alice"])}
            tasks.start_soon(lambda: http.post(server.url, json=call, headers=headers))
            await eventually(lambda: len(product.world.sent("reserve")) == 1)
            tasks.cancel_scope.cancel()
        answers: list[Answer] = []

        async def again(who: Agent) -> None:
            answers.append(await who.call("reserve", item="a", mode="hang_before"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(again, alice)
            await anyio.sleep(0.1)
            product.world.go()
        assert answers[0].facts["replayed"] is True
        assert await alice.open() == [answers[0].saga_id]
        other = await alice.call("reserve", item="b")
        assert other.saga_id != answers[0].saga_id
    assert product.world.order == ["reserve(a)", "reserve(b)"]


@pytest.mark.parametrize("ids", [("toolu_1", "toolu_2")])
async def test_two_calls_that_their_client_tells_apart_are_two(product: Product, ids: tuple[str, str]) -> None:
    share(product)
    async with serving(product) as server, web() as http:
        headers = {**HEADERS, **bearing(TOKENS["alice"])}

        async def call(name: str) -> None:
            body = posted("reserve", item="a", mode="hang_before")
            body["params"]["_meta"] = {"claudecode/toolUseId": name}
            assert (await http.post(server.url, json=body, headers=headers)).json()["result"]["isError"] is False

        async with anyio.create_task_group() as tasks:
            for number, name in enumerate(ids, 1):
                tasks.start_soon(call, name)
                await eventually(lambda number=number: len(product.world.sent("reserve")) == number)
            product.world.go()
    assert product.world.order == ["reserve(a)", "reserve(a)"]
