"""Rules over a saga's results: a violation aborts, and names the rule and the step (SEMANTICS.md S9.3)."""

from collections.abc import AsyncGenerator

import pytest
from tests.testing.shop import Shop

from saga_mcp.testing import CallFailed, Harness


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def h(shop: Shop) -> AsyncGenerator[Harness]:
    async with Harness(shop.registry) as harness:
        yield harness


async def test_a_violation_aborts_in_the_append_of_the_outcome_and_names_rule_and_step(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("pack", item="tea")
    await saga.call("pack", item="feathers")
    await saga.rest()
    assert (saga.state, saga.undone, saga.cause) == ("compensated", ["pack", "pack"], "invariant:no_feathers")
    assert shop.happened[-2:] == ["unpacked feathers", "unpacked tea"]
    lines = [line.split("  ", 1) for line in saga.timeline.splitlines()]
    [violated] = [at for at, (_, line) in enumerate(lines) if line.startswith("INVARIANT_VIOLATED")]
    assert "step 2 tools.pack" in lines[violated][1]
    assert "'no_feathers'" in lines[violated][1]
    assert [line.split()[0] for _, line in lines[violated - 1 : violated + 2]] == [
        "STEP_SUCCEEDED",
        "INVARIANT_VIOLATED",
        "ABORT_REQUESTED",
    ]
    assert len({at for at, _ in lines[violated - 1 : violated + 2]}) == 1  # one append, one time


async def test_after_the_pivot_a_violation_is_a_question_for_a_person(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("hand_over", item="tea")
    await saga.call("weigh", grams=0)
    [item] = saga.items
    assert (item.kind.value, item.step) == ("invariant", 0)
    assert "no_feathers" in item.message
    assert (saga.state, saga.undone, shop.happened) == ("active", [], ["handed over tea"])
    await saga.commit()
    assert saga.state == "committed"


async def test_a_violation_by_the_last_result_of_a_tool_only(h: Harness) -> None:
    saga = h.saga()
    await saga.call("pack", item="tea")
    await saga.savepoint("tea")
    with pytest.raises(CallFailed):
        await saga.call("pack", item=3)
    await saga.call("pack", item="milk")
    await saga.abort(to_savepoint="tea")
    await saga.commit()
    assert saga.state == "committed"
