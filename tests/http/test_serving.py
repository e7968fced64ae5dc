"""`saga-mcp serve --http` on loopback: clients of both eras, what is let in, what its health says."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from http import HTTPStatus

import pytest
from tests.e2e.product import Product
from tests.http.serving import HEADERS, LEGACY, MODERN, agent, posted, serving, web

from saga_mcp.cli.serve_http import WrongAddress, address_of


@pytest.mark.parametrize("mode", [LEGACY, pytest.param("auto", marks=pytest.mark.slow), MODERN])
async def test_a_client_of_either_era_keeps_one_saga_and_undoes_another(product: Product, mode: str) -> None:
    async with serving(product) as server, agent(server.url, mode=mode) as client:
        kept = await client.begin()
        assert not (await client.call("reserve", item="a", saga_id=kept)).is_error
        assert (await client.call("saga_commit", saga_id=kept)).state == "committed"
        undone = await client.begin()
        await client.call("reserve", item="b", saga_id=undone)
        await client.call("hold", item="c", saga_id=undone)
        assert (await client.call("saga_abort", saga_id=undone)).state == "compensated"
    assert product.world.order == ["reserve(a)", "reserve(b)", "hold(c)", "unhold(c)", "release(b)"]
    assert product.world.standing == ["reserve(a)"]


async def test_its_health_and_readiness_can_be_asked_by_anybody(product: Product) -> None:
    async with serving(product) as server, web() as http:
        for path, status in (("/healthz", "alive"), ("/readyz", "ready")):
            answer = await http.get(f"{server.base}{path}", headers={"Host": "10.1.2.3"})
            assert (answer.status_code, answer.json()["status"]) == (HTTPStatus.OK, status)


FROM_A_PAGE = [
    ("Host", "evil.example", HTTPStatus.MISDIRECTED_REQUEST),
    ("Host", "127.0.0.1.evil.example", HTTPStatus.MISDIRECTED_REQUEST),
    ("Host", "localhost:1", HTTPStatus.MISDIRECTED_REQUEST),
    ("Origin", "https://evil.example", HTTPStatus.FORBIDDEN),
    ("Origin", "null", HTTPStatus.FORBIDDEN),
    ("Content-Type", "text/plain", HTTPStatus.BAD_REQUEST),
    ("Accept", "text/html", HTTPStatus.NOT_ACCEPTABLE),
]


async def test_a_request_that_a_web_page_could_make_is_not_let_in(product: Product) -> None:
    """DNS rebinding, and forms that post across origins."""
    async with serving(product) as server, web() as http:
        body = json.dumps(posted("reserve", item="a"))
        for version in ("2025-11-25", "2026-07-28"):
            for header, value, status in FROM_A_PAGE:
                headers = {
                    **HEADERS,
                    "Content-Type": "application/json",
                    "MCP-Protocol-Version": version,
                    header: value,
                }
                answer = await http.post(server.url, content=body, headers=headers)
                assert answer.status_code == status, (version, header, value)
    assert product.world.sent() == []


async def test_what_only_sessions_need_is_refused(product: Product) -> None:
    async with serving(product) as server, web() as http:
        for method in ("GET", "DELETE", "PUT"):
            answer = await http.request(method, server.url, headers=HEADERS)
            assert (answer.status_code, answer.headers["Allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, "POST")


async def test_a_body_that_is_too_long_is_refused_however_it_comes(product: Product) -> None:
    product.configure(tools="[http]\nmax_body_bytes = 2048")
    body = json.dumps(posted("reserve", item="a" * 3000)).encode()

    async def pieces() -> AsyncGenerator[bytes]:
        for start in range(0, len(body), 500):
            yield body[start : start + 500]

    async with serving(product) as server, web() as http:
        for content in (body, pieces()):
            headers = {**HEADERS, "Content-Type": "application/json"}
            answer = await http.post(server.url, content=content, headers=headers)
            assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert product.world.sent() == []


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("8080", "127.0.0.1", 8080),
        (":8080", "127.0.0.1", 8080),
        ("localhost", "localhost", 8000),
        ("10.0.0.1:80", "10.0.0.1", 80),
        ("[::1]", "::1", 8000),
        ("[::1]:81", "::1", 81),
        ("saga.example.com:443", "saga.example.com", 443),
    ],
)
def test_an_address_may_be_short(text: str, host: str, port: int) -> None:
    assert address_of(text) == (host, port)


@pytest.mark.parametrize("text", ["127.0.0.1:99999", "a/b", "[::1", "::1", "host:port", "http://127.0.0.1:8000"])
def test_what_is_no_address_is_said_so(text: str) -> None:
    with pytest.raises(WrongAddress, match="is no address: say HOST:PORT"):
        address_of(text)


@pytest.mark.slow
async def test_an_address_that_is_taken_is_named(product: Product) -> None:
    async with serving(product) as server:
        code, said = await product.run("serve", "--http", server.base.removeprefix("http://"))
    assert code == 1
    assert "in use" in said
