"""A log on a primary and its standby: the primary is what is meant, wherever it is by now."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.e2e.product import Product
from tests.postgres.server import PostgresServer, fresh, running, sql

BOUND_S = 60.0


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_of_several_hosts_the_primary_is_used_and_after_a_failover_the_new_one(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    with fresh(own_server) as name, running(of=own_server) as standby:
        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{own_server.port}"
        product = Product(tmp_path, url=f"postgresql://saga:no-secret@{hosts}/{name}")
        async with product.serve() as agent:
            saga_id = await agent.begin()
            assert not (await agent.call("reserve", item="a", saga_id=saga_id)).is_error
            await _has_all(standby, name, own_server)
            own_server.stop()
            refused = await agent.call("reserve", item="b", saga_id=saga_id)
            assert refused.code == "log_unavailable", refused.text
            sql(standby.url("postgres"), "SELECT pg_promote()")
            with anyio.fail_after(BOUND_S):
                while (reply := await agent.call("reserve", item="c", saga_id=saga_id)).is_error:
                    assert reply.code == "log_unavailable", reply.text
                    await anyio.sleep(0.2)
            assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
        own_server.start()  # `fresh` tidies up there
    assert product.world.order == ["reserve(a)", "reserve(c)", "release(c)", "release(a)"]


async def _has_all(standby: PostgresServer, database: str, primary: PostgresServer) -> None:
    events = "SELECT count(*) FROM saga_event"
    with anyio.fail_after(BOUND_S):
        while sql(standby.url(database), events) != sql(primary.url(database), events):  # noqa: ASYNC110 - a server
            await anyio.sleep(0.05)
