"""What many sagas cost Temporal, and what a rush of aborts comes to."""

from __future__ import annotations

from collections import Counter
from functools import partial

import anyio
import pytest
from tests.temporal.served import Realm
from tests.world.reading import World
from tests.world.server import ME, Server

from saga_mcp.domain.values import Phase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_CALLERS = 64
_STANDS_STILL_S = 120.0


async def opened(server: Server, number: int) -> list[str]:
    """Open so many sagas of one step each."""
    ids: list[str] = []
    left = iter(range(number))

    async def caller() -> None:
        for each in left:
            reply = await server.engine.call("reserve", {"item": str(each)}, caller=ME)
            ids.append(reply.saga_id)

    async with anyio.create_task_group() as callers:
        for _ in range(_CALLERS):
            callers.start_soon(caller)
    return ids


async def test_ten_thousand_open_sagas_cost_temporal_nothing(realm: Realm, world: World) -> None:
    async with realm.serving(recovery_every_s=1.0) as server, realm.working(recovery_every_s=1.0):
        ids = await opened(server, 10_000)
        assert await realm.runs() == 0
        assert (await server.engine.abort(ids[5000], cause="agent")).phase is Phase.COMPENSATED
        with anyio.fail_after(30):
            while await realm.runs() != 1:  # noqa: ASYNC110 - what is listed lags behind
                await anyio.sleep(0.1)
    assert len(world.did("release")) == 1


async def test_two_thousand_aborts_at_once_are_all_driven_and_each_undo_runs_once(realm: Realm, world: World) -> None:
    """Workers take so many at a time; the others wait in Temporal, and nothing is told twice for that."""
    async with realm.serving(recovery_every_s=1.0, reply_within_s=30.0) as server, realm.working(recovery_every_s=1.0):
        ids = await opened(server, 2_000)
        async with anyio.create_task_group() as aborts:
            for saga_id in ids:
                aborts.start_soon(partial(server.engine.abort, saga_id, cause="agent"))
        undone = -1
        while await server.log.busy_sagas(realm.name):
            with anyio.fail_after(_STANDS_STILL_S):
                while len(world.did("release")) == undone:  # noqa: ASYNC110 - the outside world
                    await anyio.sleep(0.2)
            undone = len(world.did("release"))
            await anyio.sleep(0.5)
    assert world.standing == []
    assert set(Counter(line.key for line in world.sent("release")).values()) == {1}
    assert len(world.sent("release")) == len(ids)
