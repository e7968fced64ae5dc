"""A Temporal server that is reached over TLS and wants to know who asks, as a cloud's does."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trustme
from tests.postgres.proxy import Proxy
from tests.temporal.dev_server import DevServer
from tests.temporal.served import Realm
from tests.world.reading import World
from tests.world.server import eventually

from saga_mcp.domain.values import Phase
from saga_mcp.engine.drivers.temporal.place import TemporalPlace

pytestmark = pytest.mark.timeout(120)


@dataclass
class OverTls(DevServer):
    """The same server, as it is reached over TLS."""

    secured: TemporalPlace = field(default_factory=TemporalPlace)

    @property
    def place(self) -> TemporalPlace:
        return self.secured


@asynccontextmanager
async def over_tls(server: DevServer, authority: trustme.CA) -> AsyncGenerator[OverTls]:
    """Lets in only whom the authority knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    context.verify_mode = ssl.CERT_REQUIRED
    certificate = authority.issue_cert("localhost")
    certificate.configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType] - the same
    proxy = Proxy(server.port)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=context)
    ours = authority.issue_cert("worker@example.org")
    place = TemporalPlace(
        address=f"localhost:{listener.sockets[0].getsockname()[1]}",
        tls=True,
        server_ca=authority.cert_pem.bytes(),
        client_cert=b"".join(each.bytes() for each in ours.cert_chain_pems),
        client_key=ours.private_key_pem.bytes(),
    )
    try:
        yield OverTls(server.folder, port=server.port, secured=place)
    finally:
        listener.close()
        await proxy.end()


def realm_at(server: DevServer, database: Path) -> Realm:
    return Realm(server, f"ledger-{secrets.token_hex(4)}", database)


async def test_sagas_are_driven_over_tls_by_workers_that_show_a_certificate(
    temporal: DevServer, database: Path, world: World
) -> None:
    async with over_tls(temporal, trustme.CA()) as server:
        realm = realm_at(server, database)
        async with realm.serving() as agent, realm.working():
            saga_id = await agent.begin()
            await agent.call("reserve", saga_id, item="a")
            assert (await agent.abort(saga_id)).phase is Phase.COMPENSATED
    assert world.order == ["reserve(a)", "release(a)"]


async def test_a_temporal_server_that_cannot_prove_who_it_is_is_told_nothing_and_that_is_said(
    temporal: DevServer, database: Path, world: World
) -> None:
    async with over_tls(temporal, trustme.CA()) as server:
        server.secured = replace(server.secured, server_ca=trustme.CA().cert_pem.bytes())
        realm = realm_at(server, database)
        async with realm.serving(reply_within_s=0.5) as agent:
            saga_id = await agent.begin()
            await agent.call("reserve", saga_id, item="a")
            await agent.abort(saga_id)
            driver = agent.engine._driver  # pyright: ignore[reportPrivateUsage]  # what the replies quote
            await eventually(lambda: bool(driver.trouble))
            assert "its certificate is not accepted (UnknownIssuer); see [temporal] server_ca" in driver.trouble
    assert world.order == ["reserve(a)"]
