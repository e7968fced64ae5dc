"""Sagas are driven to rest by workers of a real Temporal server (DESIGN.md section 7; SEMANTICS.md S12.3)."""

from __future__ import annotations

from pathlib import Path

from tests.temporal.dev_server import DevServer
from tests.temporal.served import serving, working
from tests.world.reading import World

from saga_mcp.domain.values import Phase


async def test_an_abort_of_three_steps_is_driven_by_a_worker(
    temporal: DevServer, realm: str, world: World, database: Path
) -> None:
    async with serving(temporal, realm, database) as server, working(temporal, realm, database) as worker:
        saga_id = await server.begin()
        for item in "abc":
            await server.call("reserve", saga_id, item=item)
        assert (await server.abort(saga_id)).phase is Phase.COMPENSATED
        saga = await server.engine.saga(saga_id)
        assert saga.driver == worker.owner
    assert world.order == ["reserve(a)", "reserve(b)", "reserve(c)", "release(c)", "release(b)", "release(a)"]
