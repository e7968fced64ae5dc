"""Who is let in at all: by which name a server is called, by which pages, and whether it may be served so."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from tests.e2e.product import Product
from tests.http.people import TOKENS, share
from tests.http.serving import HEADERS, bearing, posted, serving, web

from saga_mcp.app import load
from saga_mcp.cli.serve_http import WrongAddress, address_of, require_safe
from saga_mcp.edge.http.door import security_of
from saga_mcp.edge.http.settings import HttpSettings


async def test_a_public_address_is_not_served_to_whoever_comes_by(product: Product) -> None:
    code, said = await product.run("serve", "--http", "0.0.0.0:0")
    assert code == 2
    assert "saga-mcp token NAME" in said
    assert "Nothing was started" in said


@pytest.mark.parametrize("address", ["saga.example.com", "192.0.2.1:80", "[::]:80", "10.0.0.1"])
def test_what_others_reach_is_known_by_its_address(product: Product, address: str) -> None:
    host, _ = address_of(address)
    with pytest.raises(WrongAddress, match="saga-mcp token NAME"):
        require_safe(load(product.config, code=False), host)


@pytest.mark.parametrize(
    "reached",
    [
        'public_url = "https://saga.example.com/mcp"',
        'allowed_hosts = ["saga.example.com"]',
        'allowed_hosts = ["localhost:*", "10.0.0.1:*"]',
        'allowed_hosts = ["[2001:db8::1]:80"]',
    ],
)
def test_a_server_behind_a_proxy_is_not_served_to_whoever_comes_by(product: Product, reached: str) -> None:
    product.configure(tools=f"[http]\n{reached}")
    with pytest.raises(WrongAddress, match="others reach it by a proxy"):
        require_safe(load(product.config, code=False), "127.0.0.1")


@pytest.mark.parametrize(
    "reached", ['public_url = "http://localhost:8000/mcp"', 'allowed_hosts = ["LOCALHOST:*", "[::1]:80", "127.0.0.5"]']
)
def test_other_names_of_this_machine_are_its_own(product: Product, reached: str) -> None:
    product.configure(tools=f"[http]\n{reached}")
    require_safe(load(product.config, code=False), "127.0.0.1")


def test_an_address_by_which_nobody_calls_needs_a_name(product: Product) -> None:
    share(product)
    with pytest.raises(WrongAddress, match="each request would be refused"):
        require_safe(load(product.config, code=False), "0.0.0.0")  # noqa: S104 - not listened at
    share(product, tools='[http]\npublic_url = "https://saga.example.com/mcp"')
    require_safe(load(product.config, code=False), "0.0.0.0")  # noqa: S104 - see above


@pytest.mark.parametrize("host", ["127.0.0.2", "127.0.0.1", "::1", "localhost"])
def test_a_server_is_known_by_the_address_it_listens_at(host: str) -> None:
    security = security_of(HttpSettings(), host, 8000)
    assert (f"[{host}]:8000" if ":" in host else f"{host}:8000") in security.allowed_hosts


async def test_a_name_has_no_case_and_a_refusal_says_what_would_let_it_in(product: Product) -> None:
    share(product, tools='[http]\nallowed_hosts = ["Saga.Example.com"]\nallowed_origins = ["http://LOCALHOST:*"]')
    bearer = bearing(TOKENS["alice"])
    async with serving(product) as server, web() as http:

        async def status(path: str = "/mcp", **headers: str) -> tuple[int, str]:
            answer = await http.post(
                f"{server.base}{path}",
                json=posted("reserve", item="a"),
                headers={**HEADERS, **bearer, **headers},
            )
            return answer.status_code, answer.text

        assert (await status(Host="SAGA.example.COM"))[0] == HTTPStatus.OK
        assert (await status("/mcp/"))[0] == HTTPStatus.OK
        assert (await status(Origin="http://localhost:5173"))[0] == HTTPStatus.OK
        code, said = await status(Host="evil.example.com")
        assert (code, "allowed_hosts" in said) == (HTTPStatus.MISDIRECTED_REQUEST, True)
        assert (await status("/mcp/", Host="evil.example.com"))[0] == HTTPStatus.MISDIRECTED_REQUEST
        code, said = await status(Origin="http://evil.example.com")
        assert (code, "allowed_origins" in said) == (HTTPStatus.FORBIDDEN, True)
        twice = [("Authorization", f"Bearer {TOKENS[who]}") for who in ("alice", "op")]
        answer = await http.post(server.url, json=posted("reserve", item="b"), headers=[*HEADERS.items(), *twice])
        assert answer.status_code == HTTPStatus.BAD_REQUEST
        asked = {"Origin": "http://localhost:5173", "Access-Control-Request-Method": "POST"}
        answer = await http.options(f"{server.base}/mcp", headers=asked)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "http://localhost:5173")
        answer = await http.options(f"{server.base}/mcp", headers={**asked, "Origin": "http://localhost.evil.com:1"})
        assert "access-control-allow-origin" not in answer.headers
