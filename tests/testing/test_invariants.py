"""Rules over a saga's results: a violation aborts, and names the rule and the step (SEMANTICS.md S9.3)."""

from collections.abc import AsyncGenerator, Mapping

import anyio
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


async def test_an_answer_that_comes_late_does_not_hide_a_newer_one(shop: Shop) -> None:
    """Order key, S5.2: the older call fell in doubt first."""
    answer = anyio.Event()

    @shop.registry.tool(timeout_s=0.05)
    async def count(what: str) -> int:
        if what == "slowly":
            await answer.wait()
            return 0
        return 5

    @shop.registry.undoes(count)
    def uncount() -> None:
        shop.happened.append("uncounted")

    @shop.registry.invariant
    def something_is_there(results: Mapping[str, int]) -> bool:
        return results.get("count") != 0

    async with Harness(shop.registry, on_error="hold") as h:
        saga = h.saga()
        with pytest.raises(CallFailed) as unknown:
            await saga.call("count", what="slowly")
        assert unknown.value.code == "outcome_unknown"
        await saga.call("count", what="fast")
        answer.set()
        await saga.rest()
        assert saga.steps == [("count", "succeeded"), ("count", "succeeded")]
        assert saga.state == "active"
        await saga.commit()
