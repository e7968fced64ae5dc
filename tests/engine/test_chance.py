"""Anything that two processes and their agents may do at once, by chance; then the outside world is counted.

Whatever happens, a committed saga keeps exactly what it says it did, an undone one leaves nothing, nothing is done
twice, and what is not known is said of a step whose undo may not be sent on a guess (DESIGN.md rules 2 to 5 and 11).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.world.reading import UNDOES, World
from tests.world.server import Server, served, settles_at_once
from tests.world.threads import MortalThreads

from saga_mcp.domain.errors import Refused
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import OnError, OnUndoFailure, Phase, StepState

TOOLS = {
    "reserve": ["ok", "err_before", "err_after", "fail_before", "0.01", "0.03", "SystemExit"],
    "hold": ["ok", "err_before", "err_after", "0.01", "0.03"],
    "book": ["ok", "err_before", "err_after", "fail_before", "0.01"],
    "charge": ["ok", "err_before", "err_after", "fail_before", "0.02"],
}
UNDO_PLANS = [["ok"], ["err_before", "ok"], ["0.02", "ok"], ["err_after", "ok"]]


@dataclass
class Chance:
    """One run."""

    dice: random.Random
    world: World
    database: Path
    sagas: list[str] = field(default_factory=list[str])

    async def agent(self, server: Server) -> None:
        """One agent of one process: a few calls and ends of sagas, and sometimes it does not wait for the answer."""
        for _ in range(self.dice.randint(3, 8)):
            work = self._work(server, self.dice.choice(self.sagas))
            with suppress(Refused):
                if self.dice.random() < 0.2:
                    with anyio.move_on_after(self.dice.uniform(0, 0.03)):
                        await work()
                else:
                    await work()

    def _work(self, server: Server, saga_id: str) -> Callable[[], Awaitable[object]]:
        what = self.dice.random()
        if what < 0.06:
            return lambda: server.commit(saga_id)
        if what < 0.1:
            return lambda: server.abort(saga_id)
        if what < 0.15:
            return lambda: server.engine.savepoint(saga_id, "mark")
        if what < 0.2:
            return lambda: server.engine.abort(saga_id, cause="agent", to_savepoint="mark")
        tool = self.dice.choice(list(TOOLS))
        mode = self.dice.choice(TOOLS[tool])
        arguments = {"cents": 5} if tool == "charge" else {"item": str(self.dice.randint(1, 3))}
        return lambda: server.call(tool, saga_id, mode=mode, **arguments)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(12), id="everyday"), pytest.param(range(100, 300), id="many", marks=pytest.mark.slow)],
)
async def test_whatever_happens_the_world_is_as_the_sagas_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder / "world.jsonl")
        monkeypatch.setenv("LEDGER", str(world.file))
        dice = random.Random(seed)  # noqa: S311 - a test
        await _run(Chance(dice, world, folder / "saga.db"), f"seed {seed}")


async def _run(chance: Chance, seed: str) -> None:
    dice, world = chance.dice, chance.world
    world.plan(**{undo: dice.choice(UNDO_PLANS) for undo in ("release", "unhold", "unbook", "refund")})
    how: dict[str, Any] = {
        "on_error": dice.choice(list(OnError)),
        "on_undo_failure": dice.choice(list(OnUndoFailure)),
        "probe_for_s": 0.2,
        "adjust": settles_at_once,
    }
    async with served(chance.database, **how) as survivor:
        async with served(chance.database, threads=MortalThreads(), **how) as mortal:
            chance.sagas = [await dice.choice([survivor, mortal]).begin() for _ in range(3)]
            async with anyio.create_task_group() as agents, anyio.create_task_group() as mortals:
                for server, tasks in ((survivor, agents), (survivor, agents), (mortal, mortals), (mortal, mortals)):
                    tasks.start_soon(chance.agent, server)
                await anyio.sleep(dice.uniform(0.02, 0.3))
                mortals.cancel_scope.cancel()
        for saga_id in chance.sagas:
            await _check(survivor, world, saga_id, seed)
    # `book` is idempotent: an attempt of unknown outcome may be sent again under the same key.
    assert set(world.doubled) <= {"book"}, (seed, world.order)


async def _check(server: Server, world: World, saga_id: str, seed: str) -> None:
    saga = await server.rest(saga_id)
    if saga.phase is Phase.ACTIVE:
        with suppress(Refused):
            await server.abort(saga_id)
        saga = await server.rest(saga_id)
    stands = {step.number: _stands(world, saga, step.number) for step in saga.steps}
    match saga.phase:
        case Phase.COMMITTED:
            kept = {step.number for step in saga.steps if step.state is StepState.SUCCEEDED}
            assert {number for number, there in stands.items() if there} == kept, (seed, saga_id, world.order)
        case Phase.COMPENSATED:
            assert not any(stands.values()), (seed, saga_id, stands, world.order)
        case _:
            found = await server.items(saga_id)
            assert found, (seed, saga_id, saga.phase)
            # Only `refund` may not be sent again or blindly.
            assert {item.tool for item in found} == {"ledger.charge"}, (seed, saga_id, found)
            assert await server.state(saga_id) == "needs_attention"


def _stands(world: World, saga: Saga, number: int) -> bool:
    key = saga.key_of(number)
    stands = False
    for line in world.did():
        if line.key == key:
            stands = line.tool not in UNDOES
    return stands
