"""Servers and workers that share nothing but a saga log in PostgreSQL and a Temporal server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.product import Product
from tests.temporal.dev_server import DevServer
from tests.temporal.test_processes import drive_by, reserved, working

from saga_mcp.log.place import ServerPlace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def test_a_worker_undoes_over_postgresql_what_a_server_did_and_another_one_takes_over(
    tmp_path: Path, server_place: ServerPlace, temporal: DevServer
) -> None:
    product = Product(tmp_path, url=server_place.url)
    drive_by(product, temporal, "reply_within_s = 0.5")
    product.world.plan(release=["ok", "hang_before", "ok"])
    async with product.serve() as client, working(product) as first:
        saga_id = await reserved(client, "a", "b", "c")
        await client.call("saga_abort", saga_id=saga_id)
        async with working(product):
            while len(product.world.sent("release")) < 2:
                await client.status(saga_id)
            first.kill()
            await client.until(saga_id, "compensated")
    assert [line.args["item"] for line in product.world.did("release")] == ["c", "b", "a"]
