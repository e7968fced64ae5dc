"""What becomes of a forward action (SEMANTICS.md S3, S4)."""

from __future__ import annotations

from pathlib import Path

from saga_mcp.domain.values import OnError, Phase, StepState
from tests.world.reading import World
from tests.world.server import served


async def test_a_step_is_kept_by_commit(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
        saga = await server.commit(reply.saga_id)
    assert (reply.code, saga.phase) == ("", Phase.COMMITTED)
    assert world.standing == ["reserve(a)"]


async def test_a_step_is_undone_by_abort(world: World, database: Path) -> None:
    async with served(database) as server:
        reply = await server.call("reserve", item="a")
        saga = await server.abort(reply.saga_id)
    assert saga.phase is Phase.COMPENSATED
    assert world.order == ["reserve(a)", "release(a)"]


async def test_a_failing_step_undoes_what_came_before_it(world: World, database: Path) -> None:
    async with served(database) as server:
        saga_id = await server.begin()
        await server.call("reserve", saga_id, item="a")
        reply = await server.call("reserve", saga_id, item="b", mode="err_before")
        assert reply.code == "step_failed"
        assert reply.answer is not None
        assert "planned: nothing was done" in reply.answer.text
        assert await server.state(saga_id) == "compensated"
    assert world.order == ["reserve(a)", "release(a)"]
