"""Several processes that start at the same instant on a database that is not there yet (CASES C27)."""

from __future__ import annotations

import anyio
from tests.e2e.product import Product


async def test_four_servers_started_at_once_serve_one_new_database(product: Product) -> None:
    ids: list[str] = []
    gone = anyio.Event()

    async def serve() -> None:
        async with product.serve() as agent:
            reply = await agent.call("reserve", item="a")
            assert not reply.is_error, reply.text
            ids.append(reply.saga_id)
            if len(ids) == 4:
                gone.set()
            await gone.wait()
            for saga_id in ids:
                assert (await agent.status(saga_id))["saga_id"] == saga_id

    async with anyio.create_task_group() as servers:
        for _ in range(4):
            servers.start_soon(serve)
    assert len(set(ids)) == 4
    assert len(product.world.standing) == 4
