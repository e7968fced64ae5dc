"""Real workers, servers and commands around a real Temporal server, which may die like any other (S12.1 to S12.3)."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.e2e.product import COMMAND, Client, Product
from tests.temporal.dev_server import DevServer, dev_server
from tests.world.running import Running, running
from tests.world.server import eventually

_BOUND_S = 60.0
_LEDGER = {"LEDGER_SETTLE_S": "0.2", "LEDGER_TIMEOUT_S": "30"}


@asynccontextmanager
async def working(product: Product, *options: str) -> AsyncGenerator[Running]:
    """Start `saga-mcp worker`; it is killed when the block ends."""
    log = product.folder / f"worker-{secrets.token_hex(3)}.log"
    command = [*COMMAND, "worker", "--config", str(product.config), *options]
    async with running(command, log, env={**os.environ, **product.world.env, **_LEDGER}, kills=True) as worker:
        await worker.says("worker_ready")
        yield worker


def drive_by(product: Product, temporal: DevServer, saga: str = "") -> None:
    where = f'[temporal]\naddress = "{temporal.address}"\ntask_queue = "{secrets.token_hex(8)}"'
    product.configure(f'driver = "temporal"\n{saga}', where)


async def reserved(client: Client, *things: str) -> str:
    saga_id = await client.begin()
    for item in things:
        await client.call("reserve", saga_id=saga_id, item=item)
    return saga_id


async def _sent(product: Product, times: int) -> None:
    with anyio.fail_after(_BOUND_S):
        while len(product.world.sent("release")) < times:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_what_a_killed_worker_was_undoing_is_taken_over_and_what_was_recorded_is_not_run_again(
    product: Product, temporal: DevServer
) -> None:
    drive_by(product, temporal, "reply_within_s = 0.5")
    product.world.plan(release=["ok", "hang_before", "ok"])
    async with product.serve() as client, working(product) as first:
        saga_id = await reserved(client, "a", "b", "c")
        await client.call("saga_abort", saga_id=saga_id)
        await _sent(product, 2)
        async with working(product) as second:
            first.kill()
            await first.exits()
            await client.until(saga_id, "compensated")
            assert second.process.returncode is None
            pid = second.pid
    did = product.world.did("release")
    assert [line.args["item"] for line in did] == ["c", "b", "a"]
    assert [line.pid == pid for line in did] == [False, True, True]
    assert len({line.undo_key for line in product.world.sent("release") if line.args["item"] == "b"}) == 1


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_an_abort_while_temporal_is_dead_says_so_and_is_done_when_it_is_back(
    product: Product, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    with dev_server(tmp_path / "own", keeps=True) as temporal:
        drive_by(product, temporal)
        async with product.serve() as client, working(product):
            saga_id = await reserved(client, "a", "b")
            other = await reserved(client, "c")
            temporal.kill()
            with anyio.fail_after(20):  # less than what a reply may take
                reply = await client.call("saga_abort", saga_id=saga_id)
            assert (reply.is_error, reply.code) == (True, "driver_unavailable")
            assert "the abort is recorded" in reply.text
            assert product.world.sent("release") == []
            temporal.start()
            await client.until(saga_id, "compensated")
            assert (await client.call("saga_abort", saga_id=other)).is_error is False
    assert product.world.standing == []


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_retry_from_the_command_line_wakes_the_worker_and_a_resolve_does(
    product: Product, temporal: DevServer
) -> None:
    drive_by(product, temporal)
    product.world.plan(release=["give_up", "ok", "give_up", "ok"])
    async with product.serve() as client, working(product):
        saga_id = await reserved(client, "a", "b", "c")
        reply = await client.call("saga_abort", saga_id=saga_id)
        assert reply.code == "needs_person"
        code, said = await product.run("retry", f"{saga_id}.3", "--yes", "--note", "it is back", "--wait", "30")
        assert (code, product.world.standing) == (0, ["reserve(a)", "reserve(b)"]), said
        by_hand = ("--undone", "--yes", "--note", "by hand", "--wait", "30")
        code, said = await product.run("resolve", f"{saga_id}.2", *by_hand)
        assert (code, product.world.standing) == (0, ["reserve(b)"]), said


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_retry_of_everything_after_a_bad_hour_wakes_the_worker_for_each_saga(
    product: Product, temporal: DevServer
) -> None:
    drive_by(product, temporal)
    product.world.plan(release=["give_up", "give_up", "give_up", "ok"])
    async with product.serve() as client, working(product):
        for item in ("a", "b", "c"):
            reply = await client.call("saga_abort", saga_id=await reserved(client, item))
            assert reply.code == "needs_person"
        code, said = await product.run("retry", "--all", "--yes", "--note", "it is back", "--wait", "30")
        assert (code, product.world.standing) == (0, []), said
    assert len(product.world.did("release")) == 3


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_command_without_any_server_leaves_driving_to_temporal(product: Product, temporal: DevServer) -> None:
    drive_by(product, temporal)
    async with product.serve() as client:
        saga_id = await reserved(client, "a")
    code, said = await product.run("abort", saga_id, "--yes")
    assert (code, product.world.sent("release")) == (0, []), said
    assert "Temporal knows of it" in said
    assert "No worker has taken it yet." in (await product.run("show", saga_id))[1]
    async with working(product):
        code, said = await product.run("recover", "--yes")
        assert product.world.standing == [], said


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_worker_ends_gracefully_and_what_it_undid_is_recorded(product: Product, temporal: DevServer) -> None:
    drive_by(product, temporal)
    product.world.plan(release=["1.0"])
    async with product.serve() as client, working(product) as worker:
        saga_id = await reserved(client, "a")
        await client.ask("saga_abort", saga_id=saga_id)
        await _sent(product, 1)
        worker.stop()
        assert await worker.exits(20) == 0
        assert (await client.status(saga_id))["state"] == "compensated"
    assert len(product.world.did("release")) == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_process_of_another_driver_drives_nothing_and_a_switch_ends_the_workers(
    product: Product, temporal: DevServer
) -> None:
    drive_by(product, temporal)
    configured = product.config.read_text()
    async with working(product) as worker:
        product.config.write_text(configured.replace('driver = "temporal"', 'driver = "local"'))
        async with product.serve() as client:
            saga_id = await reserved(client, "a")
            assert (await client.call("saga_abort", saga_id=saga_id)).is_error is False
            assert [line.pid for line in product.world.did("release")] == [worker.pid], client.log
            code, said = await product.run("driver")
            assert code == 0
            assert 'says `driver = "local"`' in said
            assert (await product.run("driver", "set", "local", "--yes"))[0] == 0
            assert await worker.exits(20) == 1
            saga_id = await reserved(client, "b")
            assert (await client.call("saga_abort", saga_id=saga_id)).is_error is False
            assert product.world.did("release")[-1].pid == client.raw.process.pid
    assert product.world.standing == []


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_worker_shows_that_it_lives_and_ends_where_others_no_longer_see_it(
    product: Product, temporal: DevServer, tmp_path: Path
) -> None:
    drive_by(product, temporal)
    alive = tmp_path / "alive"
    async with working(product, "--alive-file", str(alive)) as worker:
        shown_at = alive.stat().st_mtime_ns
        await eventually(lambda: alive.stat().st_mtime_ns > shown_at)
        for lock in product.database.with_name(f"{product.database.name}.owners").glob("*.lock"):
            lock.unlink()
        assert await worker.exits(20) == 1
        assert "have taken over what it drove" in worker.said


async def test_a_worker_says_which_file_it_cannot_touch(product: Product, tmp_path: Path) -> None:
    product.configure('driver = "temporal"')
    code, said = await product.run("worker", "--alive-file", str(tmp_path / "nowhere" / "alive"))
    assert (code, "nowhere/alive cannot be written (No such file or directory): name one that can" in said) == (2, True)


async def test_a_worker_without_the_driver_says_what_to_do(product: Product) -> None:
    code, said = await product.run("worker")
    assert code == 2
    assert "a worker has nothing to do" in said
