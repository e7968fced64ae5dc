"""`Harness`: failures strike where they are asked for, and what a test reads off a saga is what happened."""

from collections.abc import AsyncGenerator
from datetime import date
from pathlib import Path

import anyio
import pytest
from tests.testing.shop import Shop

from saga_mcp.testing import CallFailed, FaultUnused, Harness, InjectedFault, ServerDied, UndoWhen
from saga_mcp.testing.fixture import MakeHarness
from saga_mcp.tools.python import LifespanFailed
from saga_tools import NoEffect

DUE = date(2027, 3, 12)
CRM = """
from pathlib import Path

def note(what):
    with Path(__file__).with_name("journal").open("a") as journal:
        journal.write(f"{what}\\n")

def create_lead(name: str) -> None:
    note(f"+{name}")

def delete_lead(name: str) -> None:
    note(f"-{name}")
"""
CONFIG = """
[python.crm]
path = "crm.py"
functions = ["create_lead", "delete_lead"]

[tools."crm.create_lead"]
undo = { tool = "crm.delete_lead", args = { name = "${args.name}" }, idempotent = true, safe_if_absent = true }
"""


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def h(shop: Shop) -> AsyncGenerator[Harness]:
    async with Harness(shop.registry) as harness:
        yield harness


async def test_a_call_returns_what_the_tool_returned_in_its_own_type(h: Harness) -> None:
    saga = h.saga()
    ordered = await saga.call("order", item="tea", due=DUE)
    assert (ordered.item, ordered.due) == ("tea", DUE)
    assert await saga.call("pack", item="tea") == "tea"
    assert await saga.call("stock") == 2


async def test_an_abort_undoes_the_last_step_first(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("order", item="tea", due=DUE)
    await saga.call("pack", item="tea")
    await saga.abort()
    assert (saga.state, saga.undone, saga.cause) == ("compensated", ["pack", "order"], "agent")
    assert saga.summary == "compensated: 2 undone, 0 open"
    assert shop.happened == ["ordered tea", "packed tea", "unpacked tea", "cancelled tea"]
    assert [line.split("  ")[1] for line in saga.timeline.splitlines()][-2:] == ["UNDO_SUCCEEDED", "ROLLBACK_FINISHED"]


async def test_a_revert_undoes_after_the_commit_by_a_saga_of_its_own(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    for item in ("tea", "milk"):
        await saga.call("order", item=item, due=DUE)
    await saga.commit()
    h.fail_undo("order", times=1)
    first = await saga.revert(step=1, reason="wrong tea")
    assert (saga.state, first.state, first.undone) == ("committed", "compensated", ["order"])
    second = await saga.revert()
    assert second.state == "compensated"
    assert shop.happened == ["ordered tea", "ordered milk", "cancelled tea", "cancelled milk"]
    with pytest.raises(CallFailed, match="Nothing") as refused:
        await saga.revert()
    assert refused.value.tool == "revert"


async def test_a_revert_goes_on_after_a_crash(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("order", item="tea", due=DUE)
    await saga.commit()
    h.fail_undo("order", when="crash")
    reverting = await saga.revert()
    assert (reverting.state, reverting.undone) == ("compensated", ["order"])
    assert set(shop.happened) == {"ordered tea", "cancelled tea"}


async def test_what_is_committed_stays(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("order", item="tea", due=DUE)
    await saga.commit()
    assert (saga.state, saga.steps, saga.undone) == ("committed", [("order", "succeeded")], [])
    with pytest.raises(CallFailed, match="committed") as refused:
        await saga.call("order", item="milk", due=DUE)
    assert refused.value.code == "saga_closed"
    assert shop.happened == ["ordered tea"]


async def test_a_savepoint_is_gone_back_to(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("order", item="tea", due=DUE)
    await saga.savepoint("ordered")
    await saga.call("pack", item="tea")
    await saga.abort(to_savepoint="ordered")
    assert (saga.state, saga.undone) == ("active", ["pack"])
    await saga.commit()
    assert shop.happened == ["ordered tea", "packed tea", "unpacked tea"]


@pytest.mark.parametrize(("tool", "undo"), [("order", "cancelled tea, order unknown"), ("pack", "unpacked tea")])
async def test_before_means_that_nothing_was_done_and_an_error_came(
    h: Harness, shop: Shop, tool: str, undo: str
) -> None:
    h.fail(tool)
    saga = h.saga()
    with pytest.raises(CallFailed, match="InjectedFault") as failed:
        await saga.call(tool, item="tea", **({"due": DUE} if tool == "order" else {}))
    assert failed.value.code == "step_failed"
    assert shop.happened == [undo]
    assert (saga.state, saga.undone) == ("compensated", [tool])


@pytest.mark.parametrize("tool", ["order", "pack"])
async def test_after_means_that_it_was_done_and_an_error_came(h: Harness, shop: Shop, tool: str) -> None:
    h.fail(tool, when="after", error=RuntimeError("too late"))
    saga = h.saga()
    with pytest.raises(CallFailed, match="RuntimeError: too late"):
        await saga.call(tool, item="tea", **({"due": DUE} if tool == "order" else {}))
    await saga.rest()
    assert len(shop.happened) == 2
    assert (saga.state, saga.undone) == ("compensated", [tool])


async def test_an_error_of_ones_own_means_what_it_means(h: Harness, shop: Shop) -> None:
    h.fail("order", error=NoEffect("sold out"))
    saga = h.saga()
    with pytest.raises(CallFailed, match="sold out") as failed:
        await saga.call("order", item="tea", due=DUE)
    assert failed.value.code == "step_failed"
    assert (saga.steps, shop.happened) == ([("order", "failed")], [])


async def test_a_lost_answer_leaves_a_doubt_that_only_a_person_settles(h: Harness, shop: Shop) -> None:
    h.fail("order", when="lost")
    saga = h.saga()
    with pytest.raises(CallFailed) as failed:
        await saga.call("order", item="tea", due=DUE)
    assert failed.value.code == "outcome_unknown"
    await saga.rest()
    assert shop.happened == ["ordered tea"]
    assert (saga.state, [item.kind.value for item in saga.items]) == ("needs_attention", ["in_doubt"])


async def test_after_a_crash_the_next_server_undoes_what_the_dead_one_did(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("pack", item="tea")
    h.fail("order", when="crash")
    with pytest.raises(ServerDied):
        await saga.call("order", item="tea", due=DUE)
    await saga.rest()
    assert shop.happened == ["packed tea", "ordered tea", "cancelled tea, order unknown", "unpacked tea"]
    assert (saga.state, saga.undone, shop.lifespans) == ("compensated", ["order", "pack"], 2)


async def test_a_saga_goes_on_after_a_crash_between_two_calls(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.call("pack", item="tea")
    await h.crash()
    await saga.call("order", item="tea", due=DUE)
    await saga.commit()
    assert (saga.state, shop.lifespans) == ("committed", 2)
    assert shop.happened == ["packed tea", "ordered tea"]


@pytest.mark.parametrize(
    ("when", "cancelled"), [("before", 1), ("after", 3), ("crash", 3)], ids=["before", "after", "crash"]
)
async def test_an_undo_that_fails_is_tried_again(h: Harness, shop: Shop, when: UndoWhen, cancelled: int) -> None:
    saga = h.saga()
    await saga.call("order", item="tea", due=DUE)
    h.fail_undo("order", when=when, times=2)
    await saga.abort()
    assert (saga.state, saga.undone) == ("compensated", ["order"])
    assert shop.happened == ["ordered tea", *["cancelled tea"] * cancelled]


async def test_an_undo_that_keeps_failing_waits_for_a_person_and_the_older_ones_behind_it(
    h: Harness, shop: Shop
) -> None:
    saga = h.saga()
    await saga.call("order", item="tea", due=DUE)
    await saga.call("pack", item="tea")
    h.fail_undo("unpack", times=8)
    await saga.abort()
    [item] = saga.items
    assert (saga.state, saga.undone, item.kind.value, item.step) == ("needs_attention", [], "dead_letter", 2)
    assert shop.happened == ["ordered tea", "packed tea"]


async def test_an_undo_that_asks_for_a_person_shows_what_it_asks(h: Harness) -> None:
    saga = h.saga()
    await saga.call("deliver", item="tea")
    await saga.abort()
    [item] = saga.items
    assert (item.kind.value, item.message, item.urgency.value) == ("manual_undo", "call whoever got tea", "high")


async def test_parts_of_a_step_that_failed_are_undone(h: Harness, shop: Shop) -> None:
    h.fail("gather", when="after", error=TimeoutError())
    h.fail_undo("put_back")
    saga = h.saga()
    with pytest.raises(CallFailed):
        await saga.call("gather", items=["tea", "milk"])
    await saga.rest()
    assert shop.happened == ["took tea", "took milk", "closed 2", "put milk back", "put tea back"]


async def test_several_agents_work_on_one_saga_by_its_id(h: Harness, shop: Shop) -> None:
    first = h.saga(agent="sales")
    await first.call("order", item="tea", due=DUE)
    second = h.saga(agent="stores", id=first.id)
    await second.call("pack", item="tea")
    assert first.steps == [("order", "succeeded"), ("pack", "succeeded")]
    await first.abort()
    assert second.state == "compensated"
    with pytest.raises(CallFailed) as refused:
        await second.call("pack", item="more tea")
    assert refused.value.code == "saga_aborted"
    assert shop.happened[-2:] == ["unpacked tea", "cancelled tea"]


async def test_sagas_have_nothing_to_do_with_each_other(h: Harness, shop: Shop) -> None:
    one, other = h.saga(), h.saga()
    await one.call("pack", item="tea")
    await other.call("pack", item="milk")
    await one.abort()
    await other.commit()
    assert (one.state, other.state) == ("compensated", "committed")
    assert shop.happened == ["packed tea", "packed milk", "unpacked tea"]


async def test_a_failed_step_can_be_accepted_where_errors_hold(shop: Shop) -> None:
    async with Harness(shop.registry, on_error="hold") as h:
        saga = h.saga()
        await saga.call("pack", item="tea")
        h.fail("order", error=NoEffect("sold out"))
        with pytest.raises(CallFailed):
            await saga.call("order", item="tea", due=DUE)
        with pytest.raises(CallFailed, match="step 2") as refused:
            await saga.commit()
        assert refused.value.code == "commit_refused"
        await saga.commit(accept_failed=[2])
        assert saga.state == "committed"


async def test_older_steps_are_undone_behind_a_stuck_one_where_that_is_wanted(shop: Shop) -> None:
    async with Harness(shop.registry, on_undo_failure="continue") as h:
        saga = h.saga()
        await saga.call("pack", item="tea")
        await saga.call("deliver", item="tea")
        await saga.abort()
        assert (saga.state, saga.undone) == ("needs_attention", ["pack"])
        assert shop.happened == ["packed tea", "delivered tea", "unpacked tea"]


async def test_wrong_arguments_are_no_step(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    with pytest.raises(CallFailed, match="due") as refused:
        await saga.call("order", item="tea")
    assert refused.value.code == "invalid_arguments"
    assert (saga.steps, shop.happened) == ([], [])


async def test_a_failure_that_never_struck_fails_the_test(shop: Shop) -> None:
    with pytest.raises(FaultUnused, match=r"tools\.order lost, 1 more"):
        async with Harness(shop.registry) as h:
            h.fail("order", when="lost")


async def test_what_a_test_raises_comes_out_with_the_timeline_of_each_saga(shop: Shop) -> None:
    async def users_test() -> None:
        async with Harness(shop.registry) as h:
            h.fail("order")
            await h.saga().call("pack", item="tea")
            h.saga()
            raise ValueError("own")

    with pytest.raises(ValueError, match="own") as raised:
        await users_test()
    [note] = raised.value.__notes__
    assert "active: 1 done, 0 open" in note
    assert "STEP_SUCCEEDED" in note


async def test_names_that_do_not_exist_are_refused(h: Harness) -> None:
    with pytest.raises(ValueError, match="no tool `ordr`; did you mean `order`"):
        h.fail("ordr")
    with pytest.raises(ValueError, match="no tool or undo `cancl`"):
        h.fail_undo("cancl")
    with pytest.raises(ValueError, match="`hand_over` has 0 undos"):
        h.fail_undo("hand_over")
    with pytest.raises(ValueError, match="no saga sg-1"):
        h.saga(id="sg-1")
    with pytest.raises(RuntimeError, match="no call has opened"):
        assert h.saga().id


async def test_a_lifespan_that_fails_is_told(shop: Shop) -> None:
    shop.registry.lifespan = lambda: (_ for _ in ()).throw(OSError("no network"))
    with pytest.raises(Exception, match="no network"):
        async with Harness(shop.registry):
            pytest.fail("it opened")


async def test_a_server_that_cannot_start_again_is_told(shop: Shop) -> None:
    async with Harness(shop.registry) as h:
        saga = h.saga()
        await saga.call("pack", item="tea")
        shop.registry.lifespan = lambda: (_ for _ in ()).throw(OSError("no network"))
        with pytest.raises(LifespanFailed, match="no network"):
            await h.crash()
        with pytest.raises(LifespanFailed, match="no network"):
            await saga.call("pack", item="milk")


async def test_a_call_after_the_harness_is_closed_says_so(shop: Shop) -> None:
    async with Harness(shop.registry) as h:
        saga = h.saga()
        await saga.call("pack", item="tea")
    with pytest.raises(RuntimeError, match="the harness is closed"):
        await saga.call("pack", item="milk")
    assert shop.happened == ["packed tea"]


async def test_calls_of_a_parallel_first_turn_open_one_saga(h: Harness) -> None:
    saga = h.saga()
    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(lambda item: saga.call("pack", item=item), f"tea {number}")
    assert [tool for tool, _ in saga.steps] == ["pack"] * 3


async def test_pairs_of_a_config_fail_and_are_undone_like_others(tmp_path: Path) -> None:
    tmp_path.joinpath("crm.py").write_text(CRM, encoding="utf-8")
    tmp_path.joinpath("saga.toml").write_text(CONFIG, encoding="utf-8")
    async with Harness(tmp_path / "saga.toml") as h:
        h.fail("create_lead", when="after")
        h.fail_undo("delete_lead", when="after")
        h.fail_undo("create_lead", when="crash")
        saga = h.saga()
        with pytest.raises(CallFailed):
            await saga.call("create_lead", name="ada")
        await saga.rest()
        assert (saga.state, saga.undone) == ("compensated", ["create_lead"])
    journal = tmp_path.joinpath("journal").read_text(encoding="utf-8")
    assert journal.split() == ["+ada", "-ada", "-ada", "-ada"]


async def test_the_fixture_keeps_the_log_where_pytest_keeps_files(
    saga_harness: MakeHarness, shop: Shop, tmp_path: Path
) -> None:
    async with saga_harness(shop.registry) as h:
        await h.saga().call("pack", item="tea")
    assert tmp_path.joinpath("saga.db").is_file()


def test_an_injected_fault_is_no_error_of_ours() -> None:
    assert not issubclass(InjectedFault, CallFailed)


async def test_calls_of_one_saga_may_overlap(h: Harness, shop: Shop) -> None:
    saga = h.saga()
    await saga.begin("a parallel first turn")
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(lambda item: saga.call("pack", item=item), f"tea {number}")
    assert len(saga.steps) == 5
    await saga.abort()
    assert sorted(shop.happened[5:]) == [f"unpacked tea {number}" for number in range(5)]
