"""Reads that are recorded in the saga they were made for (SEMANTICS.md S11.2)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.product import Client, Product
from tests.world.server import eventually

AUDITED = "audit_reads = true"


async def arguments_of(agent: Client, tool: str) -> list[str]:
    await agent.raw.send({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})
    listed: list[dict[str, Any]] = (await agent.answer_to("list"))["result"]["tools"]
    [found] = [each for each in listed if each["name"] == tool]
    return list(found["inputSchema"]["properties"])


async def reads_in(product: Product, saga_id: str) -> list[str]:
    code, out = await product.run("show", saga_id, "--timeline")
    assert code == 0, out
    return [line.split("READ_RECORDED")[1].strip() for line in out.splitlines() if "READ_RECORDED" in line]


@pytest.mark.slow
async def test_a_read_that_names_its_saga_is_recorded_there_and_is_no_step(product: Product) -> None:
    product.configure(AUDITED)
    async with product.serve() as agent:
        assert "saga_id" in await arguments_of(agent, "balance")
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        read = await agent.call("balance", saga_id=saga_id)
        assert not read.is_error
        failed = await agent.call("balance", saga_id=saga_id, mode="fail_before")
        assert failed.is_error
        assert (await agent.status(saga_id))["saga"] == {"id": saga_id, "state": "active"}
        assert len((await agent.status(saga_id))["steps"]) == 1
        ended = await agent.call("saga_commit", saga_id=saga_id)
        assert ended.facts["summary"] == "committed: 1 done, 0 open"
        assert not (await agent.call("balance", saga_id=saga_id)).is_error
        await agent.close_stdin()
        assert await agent.exits(within_s=10) == 0
    error = "ledger.balance; answered with an error"
    assert await reads_in(product, saga_id) == ["ledger.balance", error, "ledger.balance"]


async def test_a_read_is_recorded_though_the_server_ends_at_once(product: Product) -> None:
    product.configure(AUDITED)
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("balance", saga_id=saga_id)
        await agent.close_stdin()
        assert await agent.exits(within_s=10) == 0
    assert await reads_in(product, saga_id) == ["ledger.balance"]


async def test_a_read_for_an_unknown_saga_is_refused_and_one_for_none_is_made(product: Product) -> None:
    product.configure(AUDITED)
    async with product.serve() as agent:
        unknown = await agent.call("balance", saga_id="sg-0000000000000000000000000" + "00")
        mistyped = await agent.call("balance", saga_id="sg-1")
        assert [unknown.code, mistyped.code] == ["saga_not_found", "invalid_arguments"]
        assert product.world.sent("balance") == []
        assert not (await agent.call("balance")).is_error
        assert (await agent.call("saga_status")).structured["sagas"] == []


async def test_by_default_reads_take_no_saga_and_are_not_recorded(product: Product) -> None:
    async with product.serve() as agent:
        assert "saga_id" not in await arguments_of(agent, "balance")
        saga_id = await agent.begin()
        assert not (await agent.call("balance", saga_id=saga_id)).is_error
    assert await reads_in(product, saga_id) == []


async def test_an_audited_read_does_not_keep_a_saga_from_idling(product: Product) -> None:
    """S9.4: only steps begin the time anew."""
    product.configure(f"{AUDITED}\nidle_flag_s = 1")
    async with product.serve() as agent:
        saga_id = (await agent.call("reserve", item="a")).saga_id

        async def flagged() -> bool:
            await agent.call("balance", saga_id=saga_id)
            return bool((await agent.status(saga_id)).get("items"))

        await eventually(flagged)
