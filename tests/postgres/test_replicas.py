"""Several processes over one log in PostgreSQL, on one machine and on several, and what ends under them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import pytest
from tests.e2e.product import Client, Product, ServerDied
from tests.e2e.test_kills import settle_by_hand, two_parallel_steps_a_failure_and_an_abort
from tests.postgres.server import PostgresServer, fresh, sql
from tests.world.server import eventually

from saga_mcp.log.place import ServerPlace

HASTY = {"LEDGER_TIMEOUT_S": "0.5", "LEDGER_SETTLE_S": "0.1"}
"""The hard deadline is ten time limits: 5 s."""


def machine(product: Product, name: str) -> Mapping[str, str]:
    """The environment of a process whose own files are not those of the others: as on another machine."""
    return {"XDG_DATA_HOME": str(product.folder / name)}


@pytest.mark.slow
@pytest.mark.case(69)
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "ats", [pytest.param((6,), id="one"), pytest.param(range(2, 16), id="every", marks=pytest.mark.slow)]
)
async def test_a_kill_after_any_commit_leaves_nothing_behind(
    tmp_path: Path, postgres: PostgresServer, ats: Sequence[int]
) -> None:
    """With a real SIGKILL after the n-th COMMIT."""
    for at in ats:
        folder = tmp_path / str(at)
        folder.mkdir()
        with fresh(postgres) as name:
            product = Product(folder, url=postgres.url(name))
            async with product.serve(die_after_commit=at) as agent:
                saga_id = await agent.begin()
                try:
                    await two_parallel_steps_a_failure_and_an_abort(agent, saga_id)
                    await agent.at_rest(saga_id)
                except ServerDied:
                    pass
            async with product.serve() as agent:
                await agent.at_rest(saga_id)
                await agent.call("saga_abort", saga_id=saga_id)
                status = await agent.at_rest(saga_id)
            await settle_by_hand(product, saga_id, status, f"killed after commit {at}")


@pytest.mark.slow
@pytest.mark.case(70)
async def test_what_a_killed_process_of_this_machine_left_is_taken_over_at_once(product: Product) -> None:
    async with product.serve() as two:
        async with product.serve() as one:
            saga_id = await one.begin()
            await one.call("reserve", item="a", saga_id=saga_id)
            await one.ask("reserve", item="b", mode="hang_after", saga_id=saga_id)
            await eventually(lambda: len(product.world.did("reserve")) == 2)
            one.kill()
        status = await two.until(saga_id, "compensated")
        assert status["cause"]["code"] == "step_failed:2"
    assert product.world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


@pytest.mark.slow
async def test_what_ran_on_another_machine_counts_as_running_until_its_hard_deadline(product: Product) -> None:
    """Its death is assumed within seconds, and proves nothing of its call (SEMANTICS.md S3.5)."""
    async with product.serve(env=HASTY) as here:
        async with product.serve(env={**HASTY, **machine(product, "there")}) as there:
            saga_id = await there.begin()
            await there.call("reserve", item="a", saga_id=saga_id)
            await there.ask("reserve", item="b", mode="hang_after", saga_id=saga_id)
            await eventually(lambda: len(product.world.did("reserve")) == 2)
            there.kill()
        with anyio.fail_after(20):
            while (step := (await here.status(saga_id))["steps"][1])["state"] != "in_doubt":  # noqa: ASYNC110 - a process
                await anyio.sleep(0.05)
        assert step["running"]
        assert product.world.did("release") == []
        status = await here.until(saga_id, "needs_attention")
        assert [(item["kind"], item["item"]) for item in status["items"]] == [("in_doubt", f"{saga_id}.2")]
        assert product.world.did("release") == []
        code, output = await product.run(
            "resolve", f"{saga_id}.2", "--landed", "--note", "looked", "--by", "ada", "--yes"
        )
        assert code == 0, output
        await here.until(saga_id, "compensated")
    assert product.world.order == ["reserve(a)", "reserve(b)", "release(b)", "release(a)"]


@pytest.mark.slow
async def test_a_driver_that_stands_still_past_its_lease_is_fenced(product: Product) -> None:
    """Others drive what it drove; what it runs is its own, and when it wakes it does nothing on its old picture."""
    hasty_lease = "from saga_mcp.log.sql.postgres import owners; owners.LEASE_S = 8.0"
    product.world.plan(release=["ok", "hang_before", "ok"])
    async with product.serve(first=hasty_lease) as two, product.serve(first=hasty_lease) as one:
        saga_id = await one.begin()
        for item in "abc":
            await one.call("reserve", item=item, saga_id=saga_id)
        await one.ask("saga_abort", saga_id=saga_id)
        await eventually(lambda: len(product.world.sent("release")) == 2)
        os.kill(one.raw.process.pid, signal.SIGSTOP)
        await eventually_in(30, lambda: driver(product) != driver_of(one, product))
        assert len(product.world.sent("release")) == 2
        product.world.go()
        os.kill(one.raw.process.pid, signal.SIGCONT)
        await two.until(saga_id, "compensated")
    assert product.world.order == ["reserve(a)", "reserve(b)", "reserve(c)", "release(c)", "release(b)", "release(a)"]
    by_one, again, by_two = [line.pid for line in product.world.sent("release")]
    assert by_one == again != by_two


WRITES: Final = """
import os, time
from pathlib import Path
from saga_tools import ToolRegistry, Undo

registry = ToolRegistry()
FILE, SEEN, GO = (Path(os.environ["FILES"], name) for name in ("file", "seen", "go"))

@registry.tool(timeout_s=30)
def write(text: str) -> None:
    "Write the file."
    FILE.write_text(text)

@registry.captures(write)
def before() -> str:
    was = FILE.read_text()
    if os.environ.get("SLOW"):
        SEEN.touch()
        while not GO.exists():
            time.sleep(0.005)
    return was

@registry.undoes(write)
def restore(undo: Undo[None]) -> None:
    FILE.write_text(str(undo.capture))
"""
"""A file, of which a slow server sees what it was before and goes on later."""


@pytest.mark.slow
async def test_a_server_that_stood_still_while_it_captured_writes_nothing_on_its_old_picture(product: Product) -> None:
    """Others took it for gone and worked on the same thing: what its undo would put back is not what was there."""
    file, go = product.folder / "file", product.folder / "go"
    file.write_text("old")
    (product.folder / "writes.py").write_text(WRITES)
    product.configure(tools="[python.files]\npath = 'writes.py:registry'")
    env = {"FILES": str(product.folder)}
    there_env = {**env, **machine(product, "there"), "SLOW": "yes"}
    async with product.serve(env=env) as here, product.serve(env=there_env) as there:
        mine, theirs = await there.begin(), await here.begin()
        asked = await there.ask("write", text="mine", saga_id=mine)
        await eventually((product.folder / "seen").exists)
        assert (await here.call("write", text="theirs", saga_id=theirs)).code == "resource_held"
        os.kill(there.raw.process.pid, signal.SIGSTOP)
        sql(product.url, _END_SESSION.format(pid=there.raw.process.pid))
        with anyio.fail_after(20):
            while (await here.call("write", text="theirs", saga_id=theirs)).is_error:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.2)
        assert (await here.call("saga_commit", saga_id=theirs)).state == "committed"
        go.touch()
        os.kill(there.raw.process.pid, signal.SIGCONT)
        reply = await there.reply_to(asked)
        assert reply.code in {"", "log_unavailable"}, reply.text
        assert file.read_text() == ("theirs" if reply.is_error else "mine")
        await there.call("saga_abort", saga_id=mine)
        await here.until(mine, "compensated")
    assert file.read_text() == "theirs"


_END_SESSION: Final = """
    SELECT pg_terminate_backend(held.pid) FROM saga_owner JOIN pg_locks AS held
    ON held.locktype = 'advisory' AND (held.classid::bigint << 32) | held.objid::bigint = saga_owner.lock
    WHERE saga_owner.pid = {pid}
"""


async def eventually_in(within_s: float, holds: Callable[[], bool]) -> None:
    with anyio.fail_after(within_s):
        while not holds():  # noqa: ASYNC110 - of another process
            await anyio.sleep(0.1)


def driver(product: Product) -> str:
    return sql(product.url, "SELECT driver FROM saga")


def driver_of(agent: Client, product: Product) -> str:
    return sql(product.url, f"SELECT id FROM saga_owner WHERE pid = {agent.raw.process.pid}")  # noqa: S608 - a test


async def steps_of(agent: Client, saga_ids: list[str], chance: random.Random) -> None:
    """Calls on all sagas at once, each sent again until the log has taken it."""

    async def work(saga_id: str) -> None:
        for number in range(6):
            item = f"{saga_id[-4:]}-{number}"
            with anyio.fail_after(60):
                while (reply := await agent.call("reserve", item=item, saga_id=saga_id)).is_error:
                    assert reply.code == "log_unavailable", reply.text
                    await anyio.sleep(0.2)
            await anyio.sleep(chance.uniform(0, 0.1))

    async with anyio.create_task_group() as tasks:
        for saga_id in saga_ids:
            tasks.start_soon(work, saga_id)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGINT, id="fast"), pytest.param(signal.SIGQUIT, id="at once", marks=pytest.mark.slow)]
)
async def test_a_restart_of_the_database_under_load_loses_and_doubles_nothing(
    own_server: PostgresServer, tmp_path: Path, how: signal.Signals
) -> None:
    chance = random.Random(5)  # noqa: S311 - a test
    with fresh(own_server) as name:
        product = Product(tmp_path, url=own_server.url(name))
        async with product.serve() as one, product.serve() as two:
            mine, theirs = [await one.begin() for _ in range(4)], [await two.begin() for _ in range(4)]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(steps_of, one, mine, chance)
                tasks.start_soon(steps_of, two, theirs, chance)
                await eventually(lambda: len(product.world.did("reserve")) > 8)
                await anyio.to_thread.run_sync(own_server.restart, how)
            assert sorted(product.world.standing) == sorted({*product.world.standing})
            assert len(product.world.did("reserve")) == 48
            for saga_id in mine:
                assert (await two.call("saga_commit", saga_id=saga_id)).state == "committed"
            for saga_id in theirs:
                await one.call("saga_abort", saga_id=saga_id)
                await one.until(saga_id, "compensated")
        assert len(product.world.standing) == 24
        assert product.world.doubled == []


@pytest.mark.slow
async def test_sessions_that_end_under_load_lose_and_double_nothing(
    product: Product, server_place: ServerPlace
) -> None:
    chance = random.Random(6)  # noqa: S311 - a test
    end_one = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
    )
    async with product.serve() as one, product.serve() as two:
        saga_ids = [await one.begin() for _ in range(4)]

        async def ending() -> None:
            while True:
                await anyio.to_thread.run_sync(sql, server_place.url, end_one)
                await anyio.sleep(chance.uniform(0, 0.1))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ending)
            await steps_of(one, saga_ids, chance)
            tasks.cancel_scope.cancel()
        for saga_id in saga_ids[:2]:
            assert (await two.call("saga_commit", saga_id=saga_id)).state == "committed"
        for saga_id in saga_ids[2:]:
            await two.call("saga_abort", saga_id=saga_id)
            await two.until(saga_id, "compensated")
    assert len(product.world.did("reserve")) == 24
    assert len(product.world.standing) == 12
    assert product.world.doubled == []
