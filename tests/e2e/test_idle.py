"""A saga that its agent forgot, in the product as it is started (SEMANTICS.md S9.4, CASES C94)."""

from __future__ import annotations

import anyio
import pytest
from tests.e2e.product import Product


@pytest.mark.slow
@pytest.mark.case(94)
async def test_a_forgotten_saga_is_flagged_and_then_undone_however_often_it_is_looked_at(product: Product) -> None:
    product.configure('idle_flag_s = 1\nidle_end_s = 4\non_idle = "abort"')
    async with product.serve() as agent:
        saga_id = (await agent.call("reserve", item="a")).saga_id
        with anyio.fail_after(10):
            while "items" not in (status := await agent.status(saga_id)):  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
        assert (status["state"], status["items"][0]["kind"]) == ("active", "idle")
        assert status["next"][0] == "It was idle for long: finish it."
        late = await agent.call("reserve", saga_id=saga_id, item="b")
        assert late.text.endswith(" It was idle for long: finish it. Undone after 4 s without a step.]")
        assert product.world.order == ["reserve(a)", "reserve(b)"]
        undone = await agent.until(saga_id, "compensated")
        assert undone["cause"]["text"] == "the idle limit aborted it"
    assert product.world.standing == []
