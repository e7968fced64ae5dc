"""Two server processes on one log: any of them answers any call, and one that goes away takes nothing with it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from http import HTTPStatus

import anyio
import httpx2
import pytest
from tests.e2e.product import Product
from tests.http.balancer import balancing
from tests.http.people import TOKENS, share
from tests.http.serving import HEADERS, MODERN, agent, bearing, posted, serving, web
from tests.world.server import eventually

ANY_HOST = '[http]\nallowed_hosts = ["127.0.0.1:*"]'


@pytest.mark.case(101)
async def test_calls_of_one_saga_alternate_between_two_servers(product: Product) -> None:
    share(product, tools=ANY_HOST)
    async with serving(product) as one, serving(product) as two, balancing(one, two) as balancer:
        async with agent(balancer.url, TOKENS["alice"], keep=False) as alice:
            saga_id = await alice.begin()
            for number in range(4):
                assert not (await alice.call("reserve", item=f"i{number}", saga_id=saga_id)).is_error
            await alice.call("saga_savepoint", saga_id=saga_id, name="mark")
            await alice.call("hold", item="j", saga_id=saga_id)
            assert (await alice.call("saga_abort", saga_id=saga_id, to_savepoint="mark")).state == "active"
            assert (await alice.call("saga_commit", saga_id=saga_id)).state == "committed"
        async with agent(balancer.url, TOKENS["eve"], keep=False) as eve:
            for _ in range(2):
                assert (await eve.call("saga_status", saga_id=saga_id)).code == "saga_not_found"
        pids = {line.pid for line in product.world.did()}
        assert pids == {one.process.pid, two.process.pid}
    assert product.world.standing == [f"reserve(i{number})" for number in range(4)]
    assert product.world.doubled == []


async def test_a_call_whose_server_is_killed_is_settled_by_the_other(product: Product) -> None:
    share(product, tools=ANY_HOST)
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(serving(product)) for _ in range(2)]
        async with agent(one.url, TOKENS["alice"]) as alice, agent(two.url, TOKENS["alice"]) as again:
            saga_id = await alice.begin()
            await alice.call("reserve", item="a", saga_id=saga_id)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_lost, one.url, saga_id)
                await eventually(lambda: len(product.world.did("reserve")) == 2)
                one.process.kill()
            status = await again.until(saga_id, "compensated")
            assert status["cause"]["code"] == "step_failed:2"
    assert product.world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


async def _lost(url: str, saga_id: str) -> None:
    call = posted("reserve", item="b", mode="hang_after", saga_id=saga_id)
    async with web() as http:
        with pytest.raises(httpx2.TransportError):
            await http.post(url, json=call, headers={**HEADERS, **bearing(TOKENS["alice"])})


@pytest.mark.slow
@pytest.mark.case(41)
@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_a_client_that_goes_away_ends_the_wait_and_nothing_else(product: Product, version: str) -> None:
    """It is told what it missed when it comes back, to whichever server and however late: that it went is stored."""
    product.configure("replay_window_s = 0")
    async with serving(product) as one, serving(product) as two, agent(one.url) as here, agent(two.url) as there:
        saga_id = await here.begin()
        async with web() as http, anyio.create_task_group() as tasks:
            tasks.start_soon(_post, http, one.url, version, saga_id)
            await eventually(lambda: len(product.world.sent("reserve")) == 1)
            tasks.cancel_scope.cancel()
        await here.call("saga_status", saga_id=saga_id)  # by then that server has heard that its client is gone
        product.world.go()
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        again = await there.call("reserve", item="a", mode="hang_before", saga_id=saga_id)
        assert not again.is_error
        assert again.facts["replayed"] is True
        more = await there.call("reserve", item="a", mode="hang_before", saga_id=saga_id)
        assert "replayed" not in more.facts
    assert product.world.order == ["reserve(a)", "reserve(a)"]


async def _post(http: httpx2.AsyncClient, url: str, version: str, saga_id: str) -> None:
    body = posted("reserve", item="a", mode="hang_before", saga_id=saga_id)
    headers = {**HEADERS, "MCP-Protocol-Version": version}
    if version == MODERN:
        said: dict[str, object] = {"protocolVersion": MODERN, "clientCapabilities": {}}
        body["params"]["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in said.items()}
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "reserve"}
    answer = await http.post(url, json=body, headers=headers)
    raise AssertionError(answer.text)


@pytest.mark.slow
async def test_a_reply_that_got_lost_on_its_way_is_repeated_by_any_server(product: Product) -> None:
    """No connection tells the server: the balancer took the reply and dropped it."""
    product.configure(tools=ANY_HOST)
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(serving(product)) for _ in range(2)]
        balancer = await stack.enter_async_context(balancing(one, two))
        async with agent(one.url) as here, agent(two.url) as there:
            saga_id = await here.begin()
            balancer.swallow = lambda: bool(product.world.did("reserve"))
            async with web() as http:
                with pytest.raises(httpx2.TransportError):
                    await http.post(balancer.url, json=posted("reserve", item="a", saga_id=saga_id), headers=HEADERS)
            answers = [await each.call("reserve", item="a", saga_id=saga_id) for each in (there, here)]
            assert [answer.facts.get("replayed") for answer in answers] == [True, True]
            assert product.world.order == ["reserve(a)"]
            meant = await there.call("reserve", item="a", saga_id=saga_id)
            assert "replayed" not in meant.facts
    assert product.world.order == ["reserve(a)", "reserve(a)"]


async def test_after_the_window_an_equal_call_is_a_new_one(product: Product) -> None:
    product.configure("replay_window_s = 0")
    async with serving(product) as one, agent(one.url) as client:
        saga_id = await client.begin()
        for _ in range(3):
            assert "replayed" not in (await client.call("reserve", item="a", saga_id=saga_id)).facts
    assert product.world.order == ["reserve(a)"] * 3


async def test_a_server_that_is_told_to_stop_answers_what_runs_first(product: Product) -> None:
    async with serving(product) as one, web() as http:
        answers: list[httpx2.Response] = []
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                posting = posted("reserve", item="a", mode="hang_before")
                answers.append(await http.post(one.url, json=posting, headers=HEADERS))

            tasks.start_soon(call)
            await eventually(lambda: len(product.world.sent("reserve")) == 1)
            one.process.stop()
            with anyio.fail_after(10):
                while await _takes_connections(one.url):  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.02)
            product.world.go()
        assert answers[0].status_code == HTTPStatus.OK
        assert answers[0].json()["result"]["isError"] is False
        assert await one.process.exits(5) == 0
    assert product.world.order == ["reserve(a)"]


async def _takes_connections(url: str) -> bool:
    async with web() as http:
        try:
            await http.get(url.replace("/mcp", "/healthz"))
        except httpx2.ConnectError:
            return False
    return True


@pytest.mark.slow
async def test_a_server_that_is_told_to_stop_does_not_wait_for_ever(product: Product) -> None:
    """What runs on falls in doubt; the next process settles it."""
    product.configure(tools="[http]\ndrain_s = 0.5")
    async with serving(product) as one, agent(one.url) as client:
        saga_id = await client.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_lost_here, one.url, saga_id)
            await eventually(lambda: len(product.world.did("reserve")) == 1)
            one.process.stop()
            assert await one.process.exits(4) == 0
    async with serving(product) as two, agent(two.url) as client:
        await client.until(saga_id, "compensated")
    assert product.world.order == ["reserve(b)", "release(b)"]


async def _lost_here(url: str, saga_id: str) -> None:
    async with web() as http:
        try:
            answer = await http.post(
                url, json=posted("reserve", item="b", mode="hang_after", saga_id=saga_id), headers=HEADERS
            )
        except httpx2.TransportError:
            return
        assert answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.json()["result"]["isError"]
