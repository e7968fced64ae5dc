"""`Harness`: calls and undos that never answer, and failures that strike by chance."""

from __future__ import annotations

from datetime import date

import pytest
from tests.testing.shop import Shop

from saga_mcp.testing import CallFailed, Harness

DUE = date(2027, 3, 12)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.mark.parametrize("tool", ["order", "pack"])
async def test_a_call_that_hangs_has_done_its_work_and_is_in_doubt_until_its_limits_are_over(
    shop: Shop, tool: str
) -> None:
    async with Harness(shop.registry, timeout_s=0.2) as h:
        h.fail(tool, when="hang")
        saga = h.saga()
        with pytest.raises(CallFailed) as failed:
            await saga.call(tool, item="tea", **({"due": DUE} if tool == "order" else {}))
        assert failed.value.code == "outcome_unknown"
        assert len(shop.happened) == 1
        await saga.rest()
    assert len(shop.happened) == 2
    assert (saga.state, saga.undone) == ("compensated", [tool])


async def test_an_undo_that_hangs_is_tried_again(shop: Shop) -> None:
    async with Harness(shop.registry, timeout_s=0.05) as h:
        saga = h.saga()
        await saga.call("order", item="tea", due=DUE)
        h.fail_undo("order", when="hang")
        await saga.abort()
        await saga.rest()
    assert (saga.state, shop.happened) == ("compensated", ["ordered tea", "cancelled tea", "cancelled tea"])


async def test_a_rate_fails_some_calls_and_none_of_the_failed_ones_stands(shop: Shop) -> None:
    kept: list[str] = []
    async with Harness(shop.registry) as h:
        h.fail("order", when="after", rate=0.5)
        for number in range(40):
            saga = h.saga()
            try:
                await saga.call("order", item=str(number), due=DUE)
            except CallFailed:
                await saga.rest()
                assert saga.state == "compensated"
            else:
                kept.append(str(number))
    assert 0 < len(kept) < 40
    cancelled = {line.split()[1].rstrip(",") for line in shop.happened if line.startswith("cancelled")}
    assert {str(number) for number in range(40)} - cancelled == set(kept)


async def test_what_fails_by_chance_may_never_happen(shop: Shop) -> None:
    async with Harness(shop.registry) as h:
        h.fail("order", rate=0.5)
        with pytest.raises(ValueError, match="is no rate"):
            h.fail("order", rate=1.5)
    assert shop.happened == []
