"""The SDK's own client, of either era, gives a call up: the work belongs to the server, and goes on."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from tests.e2e.product import BOUND_S, COMMAND, Product
from tests.edge.served import begin, facts_of
from tests.world.server import eventually

pytestmark = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@asynccontextmanager
async def connected(product: Product, era: str) -> AsyncGenerator[Client]:
    arguments = [*COMMAND[1:], "serve", "--config", str(product.config)]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=product.world.env)
    with anyio.fail_after(2 * BOUND_S):
        async with Client(parameters, mode=era) as client:
            yield client


async def given_up(client: Client, product: Product, sent: str, tool: str, **arguments: Any) -> None:  # noqa: ANN401 - JSON
    """Call a tool, and cancel the call as soon as the tool or undo `sent` has begun."""
    async with anyio.create_task_group() as calls:
        calls.start_soon(client.call_tool, tool, arguments)
        await eventually(lambda: len(product.world.sent(sent)) == 1)
        calls.cancel_scope.cancel()


async def state_of(client: Client, saga_id: str, *states: str) -> dict[str, Any]:
    while True:
        status: dict[str, Any] = (await client.call_tool("saga_status", {"saga_id": saga_id})).structured_content
        if status["state"] in states:
            return status
        await anyio.sleep(0.02)


@pytest.mark.case(38)
async def test_a_rollback_whose_caller_gave_up_is_carried_through(product: Product, era: str) -> None:
    product.world.plan(release=["hang_before"])
    async with connected(product, era) as client:
        saga_id = await begin(client)
        for item in "ab":
            await client.call_tool("reserve", {"item": item, "saga_id": saga_id})
        await given_up(client, product, "release", "saga_abort", saga_id=saga_id)
        assert product.world.did("release") == []
        product.world.go()
        await state_of(client, saga_id, "compensated")
    assert product.world.standing == []


@pytest.mark.slow
@pytest.mark.case(40, 41)
@pytest.mark.parametrize("tool", ["reserve", "hold"])
async def test_a_step_whose_caller_gave_up_ends_and_its_answer_is_given_when_asked_again(
    product: Product, era: str, tool: str
) -> None:
    async with connected(product, era) as client:
        saga_id = await begin(client)
        arguments = {"item": "a", "mode": "hang_before", "saga_id": saga_id}
        await given_up(client, product, tool, tool, **arguments)
        product.world.go()
        again = await client.call_tool(tool, arguments)
        assert again.is_error is False
        assert facts_of(again)["step"] == 1
        status = await state_of(client, saga_id, "active")
        assert [step["state"] for step in status["steps"]] == ["succeeded"]
        assert (await client.call_tool("saga_commit", {"saga_id": saga_id})).is_error is False
    assert product.world.order == [f"{tool}(a)"]
