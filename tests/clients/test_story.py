"""One short story, told to every real client over real stdio: what it shows, and what then stands in the world."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import jsonschema
import pytest
from tests.clients.installed import HERE
from tests.clients.kinds import IN_JAVASCRIPT, KINDS
from tests.clients.over_http import mcp_remote, served_over_http
from tests.clients.remote import Raised, Remote, connected
from tests.e2e.product import COMMAND, Product
from tests.world.server import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.parametrize("kind", KINDS)]
# The first test to need a client installs it.

EXACT_ID = 2**53 + 1
"""Of each reservation."""
CONTROLS = ["saga_begin", "saga_commit", "saga_abort", "saga_status", "saga_savepoint"]


@asynccontextmanager
async def agent_of(product: Product, kind: str) -> AsyncGenerator[Remote]:
    serve = [*COMMAND, "serve", "--config", str(product.config)]
    async with AsyncExitStack() as stack:
        if KINDS[kind].bridged:
            serve = mcp_remote(await stack.enter_async_context(served_over_http(product)))
        env = {**product.world.env, "MCP_REMOTE_CONFIG_DIR": str(product.folder)}
        yield await stack.enter_async_context(connected(KINDS[kind], serve, env))


async def test_it_negotiates_the_newest_protocol_it_knows_and_lists_valid_schemas(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        assert await agent.protocol() == KINDS[kind].protocol
        tools = await agent.tools()
    assert list(tools)[: len(CONTROLS)] == CONTROLS
    assert {"reserve", "charge", "balance", "send_mail"} <= tools.keys()
    for tool in tools.values():
        for schema in (tool["inputSchema"], tool.get("outputSchema") or {"type": "object"}):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
    assert "saga_id" in tools["reserve"]["inputSchema"]["properties"]
    assert tools["balance"]["annotations"]["readOnlyHint"] is True


async def test_what_is_committed_stands(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        await agent.tools()  # the TypeScript clients validate what they have seen the schema of
        saga_id = (await agent.call("saga_begin", purpose="a trip")).facts["id"]
        reserved = await agent.call("reserve", item="a", saga_id=saga_id)
        assert not reserved.is_error
        assert reserved.structured["item"] == "a"
        assert reserved.structured["saga"] == {"id": saga_id, "state": "active", "step": 1}
        assert str(EXACT_ID) in reserved.text
        assert reserved.structured["id"] == (EXACT_ID - 1 if kind in IN_JAVASCRIPT else EXACT_ID)
        charged = await agent.call("charge", cents=5, saga_id=saga_id)
        assert charged.structured["cents"] == 5
        assert (await agent.call("balance")).structured == {"result": len(product.world.lines)}
        committed = await agent.call("saga_commit", saga_id=saga_id)
        assert committed.facts["state"] == "committed"
    assert product.world.standing == ["reserve(a)", "charge(5)"]


async def test_a_failed_step_undoes_the_others_exactly(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        saga_id = (await agent.call("reserve", item="a")).facts["id"]
        await agent.call("charge", cents=5, saga_id=saga_id)
        failed = await agent.call("reserve", item="b", mode="err_before", saga_id=saga_id)
        assert failed.is_error
        assert failed.text.startswith("NoEffect: planned: nothing was done")
        assert failed.facts["code"] == "step_failed"
        assert failed.facts["state"] == "compensated"
    assert product.world.order == ["reserve(a)", "charge(5)", "refund(5)", "release(a)"]
    assert product.world.did("release")[0].args["id"] == EXACT_ID


async def test_what_the_agent_aborts_is_undone(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        saga_id = (await agent.call("reserve", item="a")).facts["id"]
        await agent.call("hold", item="b", saga_id=saga_id)
        aborted = await agent.call("saga_abort", saga_id=saga_id, reason="changed my mind")
        assert not aborted.is_error
        assert aborted.facts["state"] == "compensated"
    assert product.world.order == ["reserve(a)", "hold(b)", "unhold(b)", "release(a)"]


async def test_a_refusal_carries_its_code_and_does_nothing(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        await agent.tools()
        saga_id = (await agent.call("reserve", item="a")).facts["id"]
        await agent.call("saga_commit", saga_id=saga_id)
        refused = await agent.call("reserve", item="b", saga_id=saga_id)
        assert refused.is_error
        assert refused.facts["code"] == "saga_closed"
        assert refused.text.startswith(f"Saga {saga_id} is committed and closed. Nothing was sent.")
    assert [line.args["item"] for line in product.world.sent()] == ["a"]


async def test_an_unknown_argument_is_refused_before_anything_is_sent(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        refused = await agent.call("reserve", item="a", colour="red")
        assert refused.is_error
        assert refused.facts["code"] == "invalid_arguments"
        assert '"colour"' in refused.text
    assert product.world.sent() == []


async def test_what_the_client_gave_up_is_known_and_can_be_undone(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        saga_id = (await agent.call("saga_begin")).facts["id"]
        step = await agent.start("reserve", item="a", mode="hang_after", saga_id=saga_id)
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        await agent.cancel(step)
        with pytest.raises(Raised, match="cancelled"):
            await agent.result(step)
        product.world.go()
        await agent.until(saga_id, "succeeded")
        assert (await agent.call("saga_abort", saga_id=saga_id)).facts["state"] == "compensated"
    assert product.world.order == ["reserve(a)", "release(a)"]


async def test_what_it_gave_up_and_asks_again_is_done_once(product: Product, kind: str) -> None:
    async with agent_of(product, kind) as agent:
        saga_id = (await agent.call("saga_begin")).facts["id"]
        first = await agent.start("reserve", item="a", mode="hang_after", saga_id=saga_id)
        await eventually(lambda: len(product.world.did("reserve")) == 1)
        await agent.cancel(first)
        with pytest.raises(Raised, match="cancelled"):
            await agent.result(first)
        again = await agent.start("reserve", item="a", mode="hang_after", saga_id=saga_id)
        assert len((await agent.call("saga_status", saga_id=saga_id)).structured["steps"]) == 1
        product.world.go()
        answer = await agent.result(again)
        assert not answer.is_error
        assert answer.facts["step"] == 1
        await agent.call("saga_commit", saga_id=saga_id)
    assert product.world.order == ["reserve(a)"]


async def test_it_checks_structured_results_by_their_schema(kind: str) -> None:
    """Otherwise the stories above would show nothing about ours."""
    async with connected(KINDS[kind], [sys.executable, str(HERE / "liar.py")], {}) as agent:
        await agent.tools()
        with pytest.raises(Raised, match=r"(?i)valid|schema"):
            await agent.call("lie")
