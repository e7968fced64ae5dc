"""A log whose server speaks TLS, and what is said where the two do not agree about it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from tests.e2e.product import Product
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import PostgresServer

from saga_mcp.log.place import ServerPlace


@asynccontextmanager
async def behind_tls(place: ServerPlace, server: PostgresServer, authority: trustme.CA) -> AsyncGenerator[Proxy]:
    """The server as it is reached by TLS, as `localhost`."""
    async with proxied(place, server.port) as (proxy, _):
        proxy.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate = authority.issue_cert("localhost")
        certificate.configure_cert(proxy.tls)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
        yield proxy


def trusted(folder: Path, authority: trustme.CA) -> Path:
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(file)
    return file


def url(place: ServerPlace, server: PostgresServer, port: int, options: str, host: str = "localhost") -> str:
    return place.url.replace(f"127.0.0.1:{server.port}/", f"{host}:{port}/") + f"?{options}"


async def test_a_log_is_written_over_tls_with_a_certificate_that_is_verified(
    server_place: ServerPlace, postgres: PostgresServer, tmp_path: Path
) -> None:
    authority = trustme.CA()
    async with behind_tls(server_place, postgres, authority) as proxy:
        options = f"sslmode=verify-full&sslrootcert={trusted(tmp_path, authority)}"
        product = Product(tmp_path, url=url(server_place, postgres, proxy.port, options))
        async with product.serve() as agent:
            saga_id = await agent.begin()
            assert not (await agent.call("reserve", item="a", saga_id=saga_id)).is_error
            proxy.cut()
            assert not (await agent.call("reserve", item="b", saga_id=saga_id)).is_error
            assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "signed_by_another", "said"),
    [
        ("localhost", True, "certificate of the saga log's server is not accepted: unable to get local issuer"),
        ("127.0.0.1", False, "not accepted: IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
    ids=["of another authority", "of another host"],
)
async def test_a_server_that_cannot_prove_who_it_is_gets_nothing_and_what_to_mend_is_said(
    server_place: ServerPlace,
    postgres: PostgresServer,
    tmp_path: Path,
    host: str,
    signed_by_another: bool,  # noqa: FBT001 - a parameter of the test
    said: str,
) -> None:
    authority = trustme.CA()
    async with behind_tls(server_place, postgres, authority) as proxy:
        known = trustme.CA() if signed_by_another else authority
        options = f"sslmode=verify-full&sslrootcert={trusted(tmp_path, known)}"
        product = Product(tmp_path, url=url(server_place, postgres, proxy.port, options, host))
        async with product.serve() as agent:
            refused = await agent.call("reserve", item="a")
            assert refused.code == "log_unavailable"
            assert said in refused.text
            assert "Let sslrootcert in [saga] database name" in refused.text
    assert product.world.order == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sslmode=require", "does not speak TLS, and sslmode in [saga] database asks for it"),
        ("sslmode=verify", "`sslmode` parameter must be one of: disable, allow, prefer, require"),
    ],
)
async def test_what_the_url_asks_for_and_cannot_be_had_is_named(
    server_place: ServerPlace, postgres: PostgresServer, tmp_path: Path, options: str, said: str
) -> None:
    product = Product(tmp_path, url=url(server_place, postgres, postgres.port, options))
    async with product.serve() as agent:
        refused = await agent.call("reserve", item="a")
        assert refused.code == "log_unavailable"
        assert said in refused.text
        assert "no-secret" not in refused.text
    assert product.world.order == []
