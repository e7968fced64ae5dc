"""What servers over Temporal see to themselves: what Temporal was not told, and who has waited for too long."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.engine.test_hosts import Leaping, of
from tests.temporal.test_claims import alone
from tests.world.leaving import Leaving, leaves
from tests.world.reading import World
from tests.world.server import eventually

from saga_mcp.domain.attention import reported_state
from saga_mcp.domain.saga_decisions import request_abort

pytestmark = pytest.mark.timeout(60)


async def test_a_workflow_is_told_what_was_stored_though_the_caller_left_meanwhile(
    world: World, database: Path
) -> None:
    """One that waits for a machine, or for the next attempt of an undo, looks by itself only minutes later."""
    async with alone(database) as (server, one):
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        assert await leaves(server.engine.abort(saga_id, cause="agent"), 1, Leaving.UNTOLD)
        await eventually(lambda: one.signalled == [saga_id])
    assert world.standing == ["reserve(a)"]


async def test_people_are_told_in_time_of_a_step_that_waits_for_its_machine(world: World, database: Path) -> None:
    """Though a saga that does not move is looked at less and less often."""
    async with alone(database, host="a", adjust=of("a")) as (there, _):
        saga_id = await there.begin()
        await there.call("reserve", saga_id, item="a")
    clock = Leaping()
    async with alone(database, host="b", adjust=of("b"), clock=clock) as (here, one):
        assert one.shop is not None
        await one.shop.decide(saga_id, lambda saga, driving: request_abort(saga, driving, cause="agent"))
        for seconds in (5, 20, 80, 170, 320):
            await anyio.sleep(0.2)  # ten scans
            clock.ahead_s += seconds
        await anyio.sleep(0.2)
        assert await here.items(saga_id) == ()
        clock.ahead_s = 601
        await here.until(saga_id, lambda saga: reported_state(saga) == "needs_attention")
    assert world.standing == ["reserve(a)"]
