"""A call that a person has to allow, over HTTP: asked for with the command only, and nobody else's business."""

from __future__ import annotations

import anyio
import pytest
from tests.e2e.product import BOUND_S, Product
from tests.http.people import TOKENS, share
from tests.http.serving import agent, serving


@pytest.mark.slow
async def test_an_allowed_call_is_its_callers_alone(product: Product) -> None:
    share(product, "ask_in_client = true", "[tools.'ledger.reserve']\napproval = true")
    async with serving(product) as server:
        async with agent(server.url, TOKENS["alice"]) as alice, agent(server.url, TOKENS["eve"]) as eve:
            asked = await alice.call("reserve", item="a")
            assert asked.code == "approval_needed"
            hers = asked.saga_id
            own = await eve.call("reserve", item="a")
            assert own.code == "approval_needed"
            assert own.saga_id != hers
            assert (await eve.call("reserve", item="a", saga_id=hers)).code == "saga_not_found"
            code, said = await product.run("approve", f"{hers}.1", "--yes", "--by", "op", "--note", "fine")
            assert code == 0, said
            with anyio.fail_after(BOUND_S):
                while (await alice.status(hers))["steps"][0]["state"] != "succeeded":  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.02)
            told = await alice.call("reserve", item="a", saga_id=hers)
            assert not told.is_error
        assert "ask_in_client has no effect over HTTP" in server.process.said
    assert product.world.order == ["reserve(a)"]
