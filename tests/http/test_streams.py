"""Replies that are streams: progress while a rollback runs, clients that listen; and what readiness follows."""

from __future__ import annotations

import socket
from http import HTTPStatus

import anyio
import httpx2
import pytest
from tests.e2e.product import BOUND_S, Product
from tests.http.serving import MODERN, OTHER_ERA, agent, serving, web
from tests.world.server import eventually

from saga_mcp.edge.http.serving import listen

SSE = '[http]\nreplies = "sse"'


@pytest.mark.slow
@pytest.mark.parametrize("mode", [OTHER_ERA, MODERN])
async def test_a_rollback_is_told_how_far_it_has_come(product: Product, mode: str) -> None:
    product.configure(tools=SSE)
    product.world.plan(release=["hang_before"])
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total == 2
        assert message
        told.append(progress)

    async with serving(product) as server, agent(server.url, mode=mode) as client:
        saga_id = await client.begin()
        await client.call("reserve", item="a", saga_id=saga_id)
        await client.call("hold", item="b", saga_id=saga_id)
        async with anyio.create_task_group() as tasks:

            async def abort() -> None:
                with anyio.fail_after(BOUND_S):
                    await client.client.call_tool("saga_abort", {"saga_id": saga_id}, progress_callback=hear)

            tasks.start_soon(abort)
            await eventually(lambda: 1 in told)
            product.world.go()
    assert told == sorted(told)
    assert product.world.standing == []


async def test_a_client_that_goes_away_in_the_middle_of_a_stream_ends_the_wait_only(product: Product) -> None:
    product.configure("replay_window_s = 0", SSE)
    async with serving(product) as server, agent(server.url) as client:
        saga_id = await client.begin()
        async with agent(server.url) as gone, anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: gone.call("reserve", item="a", mode="hang_before", saga_id=saga_id))
            await eventually(lambda: len(product.world.sent("reserve")) == 1)
            tasks.cancel_scope.cancel()
        product.world.go()
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        again = await client.call("reserve", item="a", mode="hang_before", saga_id=saga_id)
        assert again.facts["replayed"] is True
    assert product.world.order == ["reserve(a)"]


async def test_a_client_that_listens_does_not_hold_up_the_end(product: Product) -> None:
    async with (
        serving(product) as server,
        agent(server.url) as client,
        client.client.listen(tools_list_changed=True),
    ):
        server.process.stop()
        assert await server.process.exits(4) == 0


async def test_a_server_whose_work_others_take_over_is_not_ready(product: Product) -> None:
    async with serving(product) as server, web() as http:
        for mark in product.folder.rglob("*.lock"):
            mark.unlink()
        with anyio.fail_after(BOUND_S):
            while (answer := await http.get(f"{server.base}/readyz")).status_code == HTTPStatus.OK:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
        assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert "restart it" in answer.json()["reason"]
        assert (await http.get(f"{server.base}/healthz")).status_code == HTTPStatus.OK


async def test_a_page_of_an_allowed_origin_may_call(product: Product) -> None:
    product.configure(tools='[http]\nallowed_origins = ["https://inspector.example"]')
    async with serving(product) as server, web() as http:
        asked = {
            "Origin": "https://inspector.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,mcp-protocol-version",
        }
        allowed = await http.options(server.url, headers=asked)
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://inspector.example"
        refused: httpx2.Response = await http.options(server.url, headers={**asked, "Origin": "https://evil.example"})
        assert refused.status_code == HTTPStatus.FORBIDDEN


def test_a_reply_is_not_held_back_for_an_acknowledgement() -> None:
    """Head and body are sent apart: with Nagle's algorithm the body waits for the client's delayed acknowledgement."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
