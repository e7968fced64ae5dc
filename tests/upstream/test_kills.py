"""`kill -9` of this server, of its upstream, and of both, after every durable write and at random, judged by the world.

Beside `e2e/test_kills`, whose tools live in the server's own process: here what a kill leaves behind is elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
from pathlib import Path

import anyio
import pytest
from tests.e2e.product import Client, Product, ServerDied
from tests.e2e.sweeping import after_each_commit
from tests.upstream.desk import LEDGER, Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAIR = """
[tools."up.add"]
undo = { tool = "up.remove", args = { id = "${args.id}" }, safe_if_absent = true, idempotent = true }
"""
UPSTREAM = f"""
[upstreams.up]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(LEDGER))}]
env = {{ LEDGER = "ledger.jsonl" }}
read_only = ["look"]
{PAIR}
"""


def check(desk: Desk, when: str) -> None:
    """Nothing stands, and nothing was done twice."""
    stands: set[int] = set()
    added: list[int] = []
    for line in desk.lines:
        if line["do"] == "add":
            added.append(line["id"])
            stands.add(line["id"])
        elif line["do"] == "remove":
            stands.discard(line["id"])
    assert not stands, f"{when}: {desk.lines}"
    assert len(added) == len(set(added)), f"{when}: {desk.lines}"


async def two_parallel_steps_a_death_and_an_abort(agent: Client, saga_id: str) -> None:
    steps = [await agent.ask("up_add", item="a", id=number, saga_id=saga_id) for number in (1, 2)]
    for step in steps:
        await agent.reply_to(step)
    await agent.call("up_add", item="b", id=3, saga_id=saga_id, mode="die_after")
    await agent.call("saga_abort", saga_id=saga_id)


async def _up(agent: Client) -> None:
    with anyio.fail_after(60):
        while (await agent.call("up_look")).is_error:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.02)


async def test_a_kill_after_any_durable_write_leaves_nothing_behind(tmp_path: Path) -> None:
    async def lives_when_killed_after(at: int) -> bool:
        folder, lived = tmp_path / str(at), False
        folder.mkdir()
        product, desk = Product(folder), Desk(folder)
        product.configure('on_error = "hold"', UPSTREAM)
        async with product.serve(die_after_commit=at) as agent:
            await _up(agent)
            saga_id = await agent.begin()
            with contextlib.suppress(ServerDied):
                await two_parallel_steps_a_death_and_an_abort(agent, saga_id)
                await agent.at_rest(saga_id)
                lived = True
        async with product.serve() as agent:
            await agent.call("saga_abort", saga_id=saga_id)
            await agent.until(saga_id, "compensated")
        check(desk, f"killed after commit {at}")
        return lived

    await after_each_commit(lives_when_killed_after)


@pytest.mark.parametrize("seed", range(2))
async def test_kills_at_random_moments_leave_nothing_behind(tmp_path: Path, seed: int) -> None:
    """Of the upstream, and now and then of this server, which takes the upstream along."""
    chance = random.Random(seed)  # noqa: S311 - repeatable chance is the point
    product, desk = Product(tmp_path), Desk(tmp_path)
    product.configure('on_error = "hold"', UPSTREAM)
    saga_id, number, done = "", 0, set[int]()
    for _ in range(2):
        async with product.serve() as agent:
            await _up(agent)
            saga_id = saga_id or await agent.begin()
            async with anyio.create_task_group() as life:
                life.start_soon(_kills, agent, desk, chance)
                with contextlib.suppress(ServerDied):
                    while True:
                        number += 1
                        mode = "ok" if number % 3 else "hang_after"  # until a kill
                        reply = await agent.call("up_add", item="a", id=number, mode=mode, saga_id=saga_id)
                        if not reply.is_error:
                            done.add(number)
                life.cancel_scope.cancel()
    assert done <= {line["id"] for line in desk.lines if line["do"] == "add"}
    assert done
    async with product.serve() as agent:
        await agent.at_rest(saga_id)
        await agent.call("saga_abort", saga_id=saga_id)
        await agent.until(saga_id, "compensated")
    check(desk, f"seed {seed}")


async def _kills(agent: Client, desk: Desk, chance: random.Random) -> None:
    for _ in range(3):
        await anyio.sleep(chance.uniform(0, 0.6))
        with contextlib.suppress(ProcessLookupError):
            os.kill(desk.pids[-1], signal.SIGKILL)
    await anyio.sleep(chance.uniform(0, 0.3))
    agent.kill()
    await agent.ended.wait()
