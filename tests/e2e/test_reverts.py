"""`saga-mcp revert` in processes of its own: killed after any durable write, and two at the same instant (S13)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest
from tests.e2e.product import BOUND_S, DYING, REPOSITORY, Product


async def committed(product: Product) -> str:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for tool, item in (("reserve", "a"), ("hold", "b"), ("book", "c")):
            await agent.call(tool, item=item, saga_id=saga_id)
        await agent.call("saga_commit", saga_id=saga_id)
    return saga_id


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_revert_killed_after_any_durable_write_is_finished_and_doubles_nothing(tmp_path: Path) -> None:
    deaths = 0
    for at in range(1, 20):
        product = Product(_folder(tmp_path, at))
        old = await committed(product)
        killed = await _killed_after(product, at, "revert", old, "--yes")
        code, said = await product.run("recover", "--yes")
        assert code == 0, said
        world = product.world
        assert world.standing == [], (at, world.order)
        assert world.order[3:] == ["unbook(c)", "unhold(b)", "release(a)"], at
        assert all(keys == {f"{key}.u1.g0"} for key, keys in world.undo_keys.items()), at
        if not killed:
            break
        deaths += 1
    assert deaths >= 3


async def _killed_after(product: Product, commit: int, *arguments: str) -> bool:
    """Run a command that kills itself after its n-th commit; whether it did."""
    env = {
        **os.environ,
        **product.world.env,
        "DIE_AFTER_COMMIT": str(commit),
        "COMMITS_FILE": str(product.commits),
        "PYTHONPATH": str(REPOSITORY),
    }
    with anyio.fail_after(BOUND_S):
        command = [sys.executable, str(DYING), *arguments, "--config", str(product.config)]
        done = await anyio.run_process(command, check=False, env=env)
    return done.returncode != 0


@pytest.mark.slow
async def test_of_two_commands_at_the_same_instant_exactly_one_reverts(product: Product) -> None:
    old = await committed(product)
    answers: list[tuple[int, str]] = []

    async def revert() -> None:
        answers.append(await product.run("revert", old, "--yes"))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(revert)
    assert sorted(code for code, _ in answers) == [0, 1, 1], answers
    assert product.world.order[3:] == ["unbook(c)", "unhold(b)", "release(a)"]
    assert all("already" in said for code, said in answers if code)


def _folder(tmp_path: Path, number: int) -> Path:
    folder = tmp_path / str(number)
    folder.mkdir()
    return folder
