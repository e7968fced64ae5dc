"""What one machine did is left to workers of it (SEMANTICS.md S1.3), over a real Temporal server."""

from __future__ import annotations

import functools
from typing import Any

import anyio
import pytest
from tests.engine.test_hosts import MINUTES_S, Leaping, abort, of
from tests.temporal.served import Realm
from tests.world.reading import World

from saga_mcp.domain.attention import reported_state
from saga_mcp.domain.person_decisions import resolve_undone
from saga_mcp.domain.values import ItemKind, Phase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def at(host: str) -> dict[str, Any]:
    """What makes a server or worker one of a machine."""
    return {"host": host, "adjust": of(host)}


async def test_a_worker_of_another_machine_leaves_a_step_to_those_of_its_own(realm: Realm, world: World) -> None:
    at_a, at_b = at("x/a"), at("x/b")
    async with realm.serving(**at_b) as here, realm.working(**at_b):
        saga_id = await here.begin()
        await here.call("reserve", saga_id, item="mine")
        async with realm.serving(**at_a) as there:
            await there.call("reserve", saga_id, item="theirs")
        await here.call("reserve", saga_id, item="top")
        await abort(here, saga_id)
        await here.until(saga_id, lambda saga: saga.step(3).settled and saga.driver == "")
        before = await here.history(saga_id)
        await anyio.sleep(3)
        assert await here.history(saga_id) == before
        assert world.order[3:] == ["release(top)"]
        async with realm.working(**at_a):
            await here.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order[3:] == ["release(top)", "release(theirs)", "release(mine)"]


async def test_after_ten_minutes_people_are_told_and_what_they_say_is_carried_out(realm: Realm, world: World) -> None:
    clock = Leaping()
    at_a, at_b = at("a"), at("b")
    async with realm.serving(**at_b, clock=clock) as here, realm.working(**at_b):
        saga_id = await here.begin()
        await here.call("reserve", saga_id, item="mine")
        async with realm.serving(**at_a) as there:
            await there.call("reserve", saga_id, item="theirs")
        await abort(here, saga_id)
        await here.until(saga_id, lambda saga: saga.driver == "")
        while clock.ahead_s < 60 * MINUTES_S and await here.state(saga_id) != "needs_attention":
            clock.ahead_s += 4 * MINUTES_S
            await anyio.sleep(0.3)
        assert clock.ahead_s > 8 * MINUTES_S
        await here.until(saga_id, lambda saga: reported_state(saga) == "needs_attention")
        [item] = await here.items(saga_id)
        assert (item.kind, item.message) == (ItemKind.NEEDS_HOST, "needs host a")
        decision = functools.partial(resolve_undone, by="ada", note="the disk is gone")
        await here.engine.decide_item(saga_id, lambda saga, driving: decision(saga, 2, driving=driving))
        await here.until(saga_id, lambda saga: saga.phase is Phase.COMPENSATED)
    assert world.order[2:] == ["release(mine)"]
