"""The product with its saga log in PostgreSQL, as a client sees it."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.e2e.product import Product
from tests.http.serving import serving
from tests.postgres.proxy import proxied
from tests.postgres.server import PostgresServer, sql

from saga_mcp.log.place import ServerPlace


@pytest.mark.slow
async def test_a_saga_is_kept_in_the_database_and_undone_from_there(
    product: Product, server_place: ServerPlace
) -> None:
    async with product.serve() as one:
        saga_id = await one.begin()
        await one.call("reserve", item="a", saga_id=saga_id)
        assert sql(server_place.url, "SELECT id, phase, steps FROM saga") == f"{saga_id}|active|1"
        one.kill()
    async with product.serve() as two:
        await two.call("hold", item="b", saga_id=saga_id)
        assert (await two.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert product.world.order == ["reserve(a)", "hold(b)", "unhold(b)", "release(a)"]
    assert sql(server_place.url, "SELECT phase FROM saga") == "compensated"


async def test_a_server_whose_database_is_away_is_not_ready_and_asks_nobody_to_restart_it(
    tmp_path: Path, postgres: PostgresServer, server_place: ServerPlace
) -> None:
    async with (
        proxied(server_place, postgres.port) as (proxy, place),
        serving(Product(tmp_path, url=place.url)) as server,
        httpx2.AsyncClient() as http,
    ):
        assert (await http.get(f"{server.base}/readyz")).is_success
        proxy.refuses = True
        proxy.cut()
        said = ""
        with anyio.fail_after(10):
            while "be reached" not in said:
                answer = await http.get(f"{server.base}/readyz", timeout=10)
                said = answer.text if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE else ""
        assert "nothing to restart" in said
        proxy.refuses = False
        with anyio.fail_after(10):
            while not (await http.get(f"{server.base}/readyz", timeout=10)).is_success:
                pass


@pytest.mark.slow
async def test_either_process_serves_a_saga_of_the_other(product: Product) -> None:
    async with product.serve() as one, product.serve() as two:
        saga_id = await one.begin()
        await one.call("reserve", item="a", saga_id=saga_id)
        assert len((await two.status(saga_id))["steps"]) == 1
        await two.call("reserve", item="b", saga_id=saga_id)
        await one.call("hold", item="c", saga_id=saga_id)
        assert (await two.call("saga_abort", saga_id=saga_id)).state == "compensated"
        assert (await one.status(saga_id))["state"] == "compensated"
    assert product.world.order[3:] == ["unhold(c)", "release(b)", "release(a)"]
