"""A server whose callers come from an authorisation server: what clients find, and who is let in as whom."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from http import HTTPStatus

import httpx2
import pytest
from tests.e2e.product import Product
from tests.http.issuer import AUDIENCE, Issuer, issuing
from tests.http.people import TOKENS
from tests.http.serving import HEADERS, LEGACY, MODERN, agent, bearing, posted, serving, web

from saga_mcp.edge.http.tokens import hash_of


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with issuing() as found:
        yield found


def trust(product: Product, issuer: Issuer) -> None:
    product.configure(
        tools=f"""
[http]
public_url = "{AUDIENCE}"

[auth.tokens]
ci = "sha256:{hash_of(TOKENS["op"])}"

[auth.oauth]
issuer = "{issuer.url}"
required_scopes = ["saga"]
operator_scope = "saga:operate"

[teams.desk]
members = ["alice", "ci"]
"""
    )


async def test_callers_are_who_their_tokens_say(product: Product, issuer: Issuer) -> None:
    trust(product, issuer)
    alices, eves = issuer.token("alice", scope="saga"), issuer.token("eve", scope="saga profile")
    async with serving(product) as server:
        async with (
            agent(server.url, alices) as alice,
            agent(server.url, eves, mode=LEGACY) as eve,
            agent(server.url, TOKENS["op"], mode=MODERN) as build,
            agent(server.url, issuer.token("root", scope="saga saga:operate")) as operator,
        ):
            hers = await alice.begin(team="desk")
            assert not (await alice.call("reserve", item="a", saga_id=hers)).is_error
            assert not (await build.call("reserve", item="b", saga_id=hers)).is_error
            assert (await eve.call("saga_abort", saga_id=hers)).code == "saga_not_found"
            own = await eve.begin()
            assert await eve.open() == [own]
            assert set(await operator.open()) == {hers, own}
            assert (await operator.call("saga_abort", saga_id=hers)).state == "compensated"
        log = server.process.said
    assert product.world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]
    assert alices not in log
    assert alices.split(".")[2] not in log


async def test_a_client_without_a_token_finds_where_to_get_one(product: Product, issuer: Issuer) -> None:
    """RFC 9728: from the refusal to the metadata, and from there to the authorisation server."""
    trust(product, issuer)
    async with serving(product) as server, web() as http:
        call = posted("reserve", item="a")
        refused = await http.post(server.url, json=call, headers=HEADERS)
        assert refused.status_code == HTTPStatus.UNAUTHORIZED
        named = "https://saga.example.com/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{named}"' in refused.headers["WWW-Authenticate"]
        for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            described = (await http.get(server.base + path, headers={"Origin": "https://inspector.example"})).json()
            assert described["resource"] == AUDIENCE
            assert described["authorization_servers"] == [issuer.url]
            assert described["scopes_supported"] == ["saga"]
        for token, status in (
            (issuer.token("alice"), HTTPStatus.FORBIDDEN),
            (issuer.token("alice", scope="saga", aud="https://other.example.com"), HTTPStatus.UNAUTHORIZED),
            (issuer.token("ci", scope="saga"), HTTPStatus.UNAUTHORIZED),
            (issuer.token("alice", scope="saga", exp=1), HTTPStatus.UNAUTHORIZED),
        ):
            answer = await http.post(server.url, json=call, headers={**HEADERS, **bearing(token)})
            assert answer.status_code == status
    assert product.world.sent() == []


async def test_an_issuer_that_cannot_be_asked_is_not_the_fault_of_the_token(product: Product, issuer: Issuer) -> None:
    trust(product, issuer)
    issuer.broken = True
    async with serving(product) as server, web() as http:
        headers = {**HEADERS, **bearing(issuer.token("alice", scope="saga"))}
        answer = await http.post(server.url, json=posted("saga_begin"), headers=headers)
        assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert answer.headers["Retry-After"]
        async with agent(server.url, TOKENS["op"]) as build:
            await build.begin()


async def test_headers_beyond_all_measure_end_one_connection_and_no_more(product: Product, issuer: Issuer) -> None:
    trust(product, issuer)
    async with serving(product) as server, web() as http:
        headers = {**HEADERS, **bearing("x" * 200_000)}
        with suppress(httpx2.TransportError):  # it may be cut before it was answered
            answer = await http.post(server.url, json=posted("saga_begin"), headers=headers)
            assert HTTPStatus.BAD_REQUEST <= answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
        assert (await http.get(f"{server.base}/healthz")).status_code == HTTPStatus.OK
