"""What a server says that does nothing of what is due, because others do not see that it lives (SEMANTICS.md S3.5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio.abc import TaskGroup
from mcp.client import Client
from tests.edge.served import facts_of, text_of
from tests.world.claims import Said
from tests.world.reading import World
from tests.world.server import served

from saga_mcp.edge.server import build_server
from saga_mcp.engine.drivers.local import LocalDriver
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import Claim


@pytest.mark.parametrize(
    ("claim", "says", "not_says"),
    [
        (Claim.AWAITED, "nothing has to be restarted", "removed"),
        (Claim.LOST, "Tell the user to restart the server", "cannot be reached"),
    ],
)
async def test_an_abort_that_is_only_recorded_says_whether_it_goes_on_by_itself(
    database: Path, world: World, claim: Claim, says: str, not_says: str
) -> None:
    owners: list[Said] = []

    def driver(shop: Workshop, tasks: TaskGroup) -> LocalDriver:
        owners.append(Said(shop.owners))
        shop.owners = owners[0]
        return LocalDriver(shop, tasks)

    async with (
        served(database, driver=driver, reply_within_s=0.2) as server,
        Client(build_server(server.engine, server.catalogue)) as client,
    ):
        reply = await client.call_tool("reserve", {"item": "a"})
        saga_id = str(facts_of(reply)["id"])
        owners[0].standing_is(claim)
        aborted = await client.call_tool("saga_abort", {"saga_id": saga_id})
        status = await client.call_tool("saga_status", {"saga_id": saga_id})
        assert status.structured_content is not None
        (move,) = status.structured_content["next"]
        for said in (text_of(aborted), move):
            assert says in said
            assert not_says not in said
        assert "NOT UNDONE YET" in text_of(aborted)
    assert world.standing == ["reserve(a)"]
