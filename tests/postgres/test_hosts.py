"""A step stays with its machine (SEMANTICS.md S1.3): processes of several machines over one log in PostgreSQL.

The upstream is one over stdio, which is of its machine. It writes down on which one it was started.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.e2e.product import BOUND_S, Client, Product
from tests.postgres.server import sql
from tests.upstream.desk import LEDGER

from saga_mcp.log.place import ServerPlace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SHELF = f"""
[upstreams.shelf]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(LEDGER))}]
env = {{ LEDGER = "shelf.jsonl", WHERE = "${{env:SAGA_MCP_HOST}}" }}
read_only = ["look"]

[tools."shelf.add"]
undo = {{ tool = "shelf.remove", args = {{ id = "${{result.id}}" }} }}
"""


@pytest.fixture
def product(tmp_path: Path, server_place: ServerPlace) -> Product:
    made = Product(tmp_path, url=server_place.url)
    made.configure("reply_within_s = 1.0", SHELF)
    return made


def machine(product: Product, name: str) -> dict[str, str]:
    """The environment of a process of a machine: its id, and a place of its own for what is not in the log."""
    return {"SAGA_MCP_HOST": name, "XDG_DATA_HOME": str(product.folder / name)}


@asynccontextmanager
async def on(product: Product, name: str) -> AsyncGenerator[Client]:
    """A server on a machine; killed when the block ends."""
    async with product.serve(env=machine(product, name)) as agent:
        with anyio.fail_after(BOUND_S):
            while (await agent.call("shelf_look")).is_error:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.02)
        yield agent


def did(product: Product) -> list[str]:
    """What was done to the shelf, in order, and on which machine."""
    file = product.folder / "shelf.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    names = {"add": "item", "remove": "id"}
    return [f"{line['do']} {line[names[line['do']]]} on {line['where']}" for line in lines if line["do"] in names]


async def add(agent: Client, saga_id: str, item: str) -> int:
    reply = await agent.call("shelf_add", saga_id=saga_id, item=item)
    assert not reply.is_error, reply.text
    return int(reply.structured["id"])


async def test_only_the_machine_that_did_a_step_undoes_it(product: Product) -> None:
    async with on(product, "a") as there, on(product, "b") as here:
        saga_id = await there.begin()
        one = await add(there, saga_id, "one")
        await here.call("saga_abort", saga_id=saga_id)
        await here.until(saga_id, "compensated")
    assert did(product) == ["add one on a", f"remove {one} on a"]


async def test_steps_of_two_machines_are_undone_in_one_order_each_where_it_was_done(product: Product) -> None:
    async with on(product, "a") as there, on(product, "b") as here:
        saga_id = await there.begin()
        ids = [await add(agent, saga_id, "x") for agent in (there, here, there, there, here)]
        await here.call("saga_abort", saga_id=saga_id)
        await there.until(saga_id, "compensated")
    wheres = "abaab"
    assert did(product)[5:] == [f"remove {ids[n]} on {wheres[n]}" for n in (4, 3, 2, 1, 0)]
    claims = int(sql(product.url, "SELECT count(*) FROM saga_event WHERE type = 'SagaClaimed'"))
    assert claims <= 8  # at most given back and taken once for each change of the machine


async def test_what_a_killed_machine_did_waits_for_it_and_is_undone_within_seconds_of_its_return(
    product: Product,
) -> None:
    """By SIGKILL, in the middle of a rollback: the step of the other machine is undone, and nothing of its own."""
    async with on(product, "b") as here:
        saga_id = await here.begin()
        mine = await add(here, saga_id, "mine")
        async with on(product, "a") as there:
            theirs = await add(there, saga_id, "theirs")
            there.kill()
        top = await add(here, saga_id, "top")
        await here.call("saga_abort", saga_id=saga_id)
        await until_given_back(product)
        seqs = sql(product.url, "SELECT seq FROM saga")
        await anyio.sleep(3)
        assert sql(product.url, "SELECT seq FROM saga") == seqs  # nobody does anything, over and over
        status = await here.status(saga_id)
        assert (status["state"], status.get("items", [])) == ("compensating", [])
        assert did(product)[3:] == [f"remove {top} on b"]
        _, shown = await product.run("show", saga_id, env=machine(product, "b"))
        assert "needs host a, where it was done" in shown
        async with on(product, "a"):
            began = anyio.current_time()
            await here.until(saga_id, "compensated")
            assert anyio.current_time() - began < 10
    assert did(product)[3:] == [f"remove {top} on b", f"remove {theirs} on a", f"remove {mine} on b"]


async def until_given_back(product: Product) -> None:
    with anyio.fail_after(BOUND_S):
        while sql(product.url, "SELECT driver || phase FROM saga") != "compensating":  # noqa: ASYNC110 - another process
            await anyio.sleep(0.1)


async def test_a_command_on_another_machine_appends_and_sends_nothing(product: Product) -> None:
    async with on(product, "a") as there:
        saga_id = await there.begin()
        one = await add(there, saga_id, "one")
    here, home = machine(product, "b"), machine(product, "a")
    code, output = await product.run("abort", saga_id, "--yes", "--wait", "20", env=here)
    assert code == 1, output
    assert "needs host a, where it was done" in output
    code, output = await product.run("recover", "--yes", env=here)
    assert code == 1, output
    assert "needs host a, where it was done" in output
    assert did(product) == ["add one on a"]
    _, output = await product.run("doctor", env=here)
    assert "machine    host b: it alone undoes what upstreams.shelf did here" in output
    code, output = await product.run("recover", "--yes", env=home)
    assert code == 0, output
    assert did(product) == ["add one on a", f"remove {one} on a"]
