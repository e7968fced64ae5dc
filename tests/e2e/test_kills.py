"""`kill -9` is a normal way to stop (DESIGN.md rule 6; CASES C16, C43, C58, C69)."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.e2e.product import Client, Product, ServerDied
from tests.e2e.sweeping import after_each_commit
from tests.world.server import eventually


async def two_parallel_steps_a_failure_and_an_abort(agent: Client, saga_id: str) -> None:
    steps = [
        await agent.ask("reserve", item="a", mode="0.02", saga_id=saga_id),
        await agent.ask("hold", item="b", saga_id=saga_id),
    ]
    for step in steps:
        await agent.reply_to(step)
    await agent.call("charge", cents=5, saga_id=saga_id)
    await agent.call("reserve", item="c", mode="err_before", saga_id=saga_id)
    await agent.call("saga_abort", saga_id=saga_id)


@pytest.mark.slow
@pytest.mark.case(69)
@pytest.mark.timeout(240)
async def test_a_kill_after_any_durable_write_leaves_nothing_behind(tmp_path: Path) -> None:
    """With a real SIGKILL after the n-th COMMIT, for every n."""

    async def lives_when_killed_after(at: int) -> bool:
        product = Product(_folder(tmp_path, at))
        async with product.serve(die_after_commit=at) as agent:
            saga_id = await agent.begin()
            with contextlib.suppress(ServerDied):
                await two_parallel_steps_a_failure_and_an_abort(agent, saga_id)
                await agent.at_rest(saga_id)
                return True
        await _restart_and_finish(product, saga_id, f"killed after commit {at}")
        return False

    await after_each_commit(lives_when_killed_after)


async def calls_given_up_and_repeated(agent: Client, saga_id: str) -> None:
    """Retries of the server's own, requests that are cancelled, and the same calls again."""
    for tool in ("book", "reserve", "hold"):
        call = await agent.ask(tool, item="a", mode="0.02", saga_id=saga_id)
        await anyio.sleep(0.01)
        await agent.cancel(call)
        await agent.call(tool, item="a", mode="0.02", saga_id=saga_id)
    await agent.call("charge", cents=5, saga_id=saga_id)
    abort = await agent.ask("saga_abort", saga_id=saga_id)
    await agent.cancel(abort)
    await agent.call("saga_abort", saga_id=saga_id)


@pytest.mark.case(43)
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="everyday"), pytest.param(200, id="many", marks=pytest.mark.slow)]
)
async def test_a_kill_at_a_random_moment_leaves_nothing_behind(tmp_path: Path, rounds: int) -> None:
    """Every other time a second process on the same database takes over; else the next start does, and may die too."""
    chance = random.Random(43)  # noqa: S311 - a test
    for number in range(rounds):
        product = Product(_folder(tmp_path, number))
        product.world.plan(book=["err_before", "0.02"], release=["err_before", "0.02"])
        scenario = (two_parallel_steps_a_failure_and_an_abort, calls_given_up_and_repeated)[number % 2]
        async with contextlib.AsyncExitStack() as others:
            survivor = await others.enter_async_context(product.serve()) if number % 4 < 2 else None
            async with product.serve() as agent:
                saga_id = await agent.begin()
                async with anyio.create_task_group() as life:
                    life.start_soon(_die, agent, chance.uniform(0, 0.25))
                    with contextlib.suppress(ServerDied):
                        await scenario(agent, saga_id)
                    await agent.ended.wait()
            if survivor is not None:
                status = await _ended(survivor, saga_id)
            else:
                async with product.serve() as successor:
                    await _die(successor, chance.uniform(0, 0.1))
                async with product.serve() as successor:
                    status = await _ended(successor, saga_id)
        await settle_by_hand(product, saga_id, status, f"round {number}")


async def _die(agent: Client, after_s: float) -> None:
    await anyio.sleep(after_s)
    agent.kill()
    await agent.ended.wait()


async def _ended(agent: Client, saga_id: str) -> dict[str, Any]:
    await agent.at_rest(saga_id)
    await agent.call("saga_abort", saga_id=saga_id)
    return await agent.at_rest(saga_id)


async def _restart_and_finish(product: Product, saga_id: str, when: str) -> None:
    async with product.serve() as agent:
        status = await _ended(agent, saga_id)
    await settle_by_hand(product, saga_id, status, when)


async def settle_by_hand(product: Product, saga_id: str, status: dict[str, Any], when: str) -> None:
    """A person looks where nobody else can know, and then nothing is left of the saga."""
    world = product.world
    if status["state"] == "needs_attention":
        # `refund` is not idempotent: killed between its intent and its outcome, nobody knows whether it took effect.
        (item,) = status["items"]
        assert item["kind"] in {"undo_in_doubt", "in_doubt"}, when
        assert item["tool"] == "charge", when
        refunded = bool(world.did("refund"))
        verb = ["resolve", item["item"], "--undone"] if refunded else ["retry", item["item"]]
        code, output = await product.run(*verb, "--note", "looked", "--by", "ada", "--yes")
        assert code == 0, (when, output)
        async with product.serve() as agent:
            status = await agent.at_rest(saga_id)
    assert status["state"] == "compensated", when
    assert world.standing == [], (when, world.order)
    assert world.doubled == [], (when, world.order)
    assert all(len(keys) == 1 for keys in world.undo_keys.values()), (when, world.undo_keys)


def _folder(tmp_path: Path, number: int) -> Path:
    folder = tmp_path / str(number)
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.case(58)
async def test_an_undo_cut_off_after_its_effect_is_sent_again_under_the_same_key(product: Product) -> None:
    """An idempotent one; the key is what makes the repetition harmless."""
    product.world.plan(release=["die_after", "ok"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        await agent.ask("saga_abort", saga_id=saga_id)
        await agent.ended.wait()
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    first, second = product.world.sent("release")
    assert first.undo_key == second.undo_key != ""
    assert first.pid != second.pid


@pytest.mark.case(58)
async def test_an_undo_cut_off_that_may_not_be_sent_twice_waits_for_a_person(product: Product) -> None:
    """The other half."""
    product.world.plan(refund=["die_after"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("charge", cents=5, saga_id=saga_id)
        await agent.ask("saga_abort", saga_id=saga_id)
        await agent.ended.wait()
    async with product.serve() as agent:
        status = await agent.until(saga_id, "needs_attention")
        assert [item["kind"] for item in status["items"]] == ["undo_in_doubt"]
        assert (await agent.call("saga_abort", saga_id=saga_id)).code == "needs_person"
    assert len(product.world.sent("refund")) == 1


@pytest.mark.case(16)
async def test_a_step_killed_with_its_server_is_undone_by_the_next_one(product: Product) -> None:
    """The intent and its undo were durable before the call was sent."""
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.ask("reserve", item="a", mode="die_after", saga_id=saga_id)
        await agent.ended.wait()
    assert product.world.standing == ["reserve(a)"]
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    assert product.world.standing == []


@pytest.mark.case(3)
async def test_a_charge_that_a_probe_finds_after_a_kill_is_kept(product: Product) -> None:
    """Recovery does not give back money that had gone through."""
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.ask("charge", cents=5, mode="die_after", saga_id=saga_id)
        await agent.ended.wait()
    async with product.serve() as agent:
        status = await agent.at_rest(saga_id)
        assert (status["state"], status["steps"][0]["state"]) == ("active", "succeeded")
        assert (await agent.call("saga_commit", saga_id=saga_id)).state == "committed"
    assert product.world.standing == ["charge(5)"]


@pytest.mark.case(67)
async def test_one_damaged_saga_does_not_stop_the_recovery_of_the_others(product: Product) -> None:
    async with product.serve() as agent:
        sagas = [await agent.begin() for _ in range(6)]
        for number, saga_id in enumerate(sagas):
            await agent.ask("reserve", item=str(number), mode="hang_after", saga_id=saga_id)
        await eventually(lambda: len(product.world.did("reserve")) == 6)
        agent.kill()
        await agent.ended.wait()
    _damage(product.folder / "saga.db", sagas[0])
    async with product.serve() as agent:
        for saga_id in sagas[1:]:
            await agent.until(saga_id, "compensated")
        damaged = await agent.call("saga_status", saga_id=sagas[0])
        assert (damaged.is_error, damaged.code) == (True, "saga_quarantined")
    assert product.world.standing == ["reserve(0)"]


def _damage(database: Path, saga_id: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        changed = connection.execute(
            "UPDATE saga_event SET facts = '{broken' WHERE saga_id = ? AND seq = 2", (saga_id,)
        )
        assert changed.rowcount == 1
