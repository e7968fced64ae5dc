"""What an agent lives through: the real client against the real engine, log and tools, in both protocol eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from tests.edge.served import ERAS, begin, facts_of, served, text_of, texts_of

from saga_mcp.domain.ids import saga_id
from saga_mcp.engine.port import EngineSettings
from saga_tools import NeedsPerson, NoEffect, ToolRegistry, Undo

pytestmark = pytest.mark.parametrize("era", ERAS)

SETTINGS = EngineSettings(realm="test")
NOBODYS = saga_id(bytes(16))


class Shop:
    """The outside world, and the tools that change it."""

    def __init__(self) -> None:
        self.orders: dict[int, str] = {}
        self.undo_may_end = anyio.Event()
        self.undo_may_end.set()
        self.asked = 0
        self.registry = ToolRegistry()
        registry = self.registry

        @registry.tool
        async def order(item: str) -> dict[str, int]:
            """Order an item."""
            number = 2**53 + 1 + len(self.orders)
            self.orders[number] = item
            return {"order": number}

        @registry.undoes(order)
        async def cancel_order(undo: Undo[dict[str, int]]) -> None:
            await self.undo_may_end.wait()
            assert undo.result is not None
            del self.orders[undo.result["order"]]

        @registry.tool
        async def pay(cents: int) -> int:
            """Pay."""
            if cents > 100:
                raise NoEffect("card declined")
            return cents

        @registry.undoes(pay)
        async def pay_back() -> None:
            raise NeedsPerson("pay it back by hand", urgency="high")

        @registry.tool(kind="read_only")
        async def stock() -> list[str]:
            """What is ordered."""
            self.asked += 1
            return sorted(self.orders.values())

        @registry.tool(kind="pivot")
        async def ship(to: str) -> str:
            """Ship everything."""
            return to


async def connect(
    stack: AsyncExitStack, shop: Shop, directory: Path, era: str, settings: EngineSettings = SETTINGS
) -> Client:
    world = await stack.enter_async_context(served(directory, shop.registry, settings=settings))
    client: Client = await stack.enter_async_context(Client(world.server, mode=era))
    await client.list_tools()
    return client


@pytest.fixture
async def stack() -> AsyncGenerator[AsyncExitStack]:
    async with AsyncExitStack() as exits:
        yield exits


@pytest.mark.case(95)
async def test_a_finished_task_is_kept_and_its_saga_takes_nothing_more(
    stack: AsyncExitStack, tmp_path: Path, era: str
) -> None:
    """Agents try every cell."""
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    saga = await begin(client, purpose="buy tea")
    first = await client.call_tool("order", {"item": "tea", "saga_id": saga})
    assert first.is_error is False
    assert first.structured_content["order"] == 2**53 + 1
    assert first.structured_content["saga"] == {"id": saga, "state": "active", "step": 1}
    assert texts_of(first)[-1].startswith(f"[saga {saga}: step 1 done, undo ready.")

    for _ in range(2):
        kept = await client.call_tool("saga_commit", {"saga_id": saga})
        assert kept.structured_content["state"] == "committed"
    for tool, arguments in (("order", {"item": "x"}), ("saga_abort", {}), ("saga_savepoint", {"name": "x"})):
        refused = await client.call_tool(tool, {**arguments, "saga_id": saga})
        assert refused.is_error is True
        assert facts_of(refused)["code"] == "saga_closed"
    assert list(shop.orders.values()) == ["tea"]
    assert (await client.call_tool("saga_status", {})).structured_content["sagas"] == []


@pytest.mark.case(51)
async def test_a_failed_step_undoes_the_task_and_closes_its_id(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    """The undo gets the order number exactly, though hosts round it."""
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    saga = await begin(client)
    await client.call_tool("order", {"item": "tea", "saga_id": saga})
    await client.call_tool("order", {"item": "cup", "saga_id": saga})
    failed = await client.call_tool("pay", {"cents": 500, "saga_id": saga})
    assert failed.is_error is True
    assert "card declined" in texts_of(failed)[0]
    assert text_of(failed).startswith(
        f"[saga {saga} UNDONE: step 3 pay failed; all 3 steps are undone or had no effect"
    )
    assert facts_of(failed)["code"] == "step_failed"
    assert shop.orders == {}
    for tool, arguments in (("order", {"item": "x"}), ("saga_commit", {})):
        refused = await client.call_tool(tool, {**arguments, "saga_id": saga})
        assert facts_of(refused)["code"] == "saga_aborted"
        assert text_of(refused).startswith(f"Saga {saga} was aborted (by step 3 pay)")
    assert shop.orders == {}
    again = await client.call_tool("saga_abort", {"saga_id": saga})
    assert again.structured_content["state"] == "compensated"


@pytest.mark.case(78)
async def test_refused_calls_cost_nothing(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    """Only an attempted step can abort a saga."""
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    saga = await begin(client)
    await client.call_tool("order", {"item": "tea", "saga_id": saga})
    for tool, arguments, code in (
        ("order", {"saga_id": saga}, "invalid_arguments"),
        ("order", {"item": 5, "saga_id": saga}, "invalid_arguments"),
        ("order", {"item": "x", "saga": saga}, "invalid_arguments"),
        ("odrer", {"item": "x", "saga_id": saga}, "invalid_arguments"),
        ("order", {"item": "x", "saga_id": NOBODYS}, "saga_not_found"),
        ("saga_commit", {"saga_id": NOBODYS}, "saga_not_found"),
        ("saga_status", {"saga_id": NOBODYS}, "saga_not_found"),
        ("saga_abort", {"saga_id": saga, "to_savepoint": "nowhere"}, "savepoint_not_found"),
    ):
        refused = await client.call_tool(tool, arguments)
        assert refused.is_error is True
        assert facts_of(refused)["code"] == code, texts_of(refused)
    view = (await client.call_tool("saga_status", {"saga_id": saga})).structured_content
    assert (view["state"], len(view["steps"])) == ("active", 1)
    assert list(shop.orders.values()) == ["tea"]
    assert len((await client.call_tool("saga_status", {})).structured_content["sagas"]) == 1


async def test_an_abort_to_a_savepoint_leaves_the_saga_open(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    saga = await begin(client)
    await client.call_tool("order", {"item": "tea", "saga_id": saga})
    marked = await client.call_tool("saga_savepoint", {"saga_id": saga, "name": "drinks"})
    assert 'save-point "drinks" set after 1 step' in text_of(marked)
    await client.call_tool("order", {"item": "cake", "saga_id": saga})
    back = await client.call_tool("saga_abort", {"saga_id": saga, "to_savepoint": "drinks"})
    assert back.structured_content["state"] == "active"
    assert 'undone back to save-point "drinks"' in text_of(back)
    assert list(shop.orders.values()) == ["tea"]
    await client.call_tool("saga_abort", {"saga_id": saga})
    assert shop.orders == {}


async def test_a_call_without_an_id_opens_a_saga_and_says_which(
    stack: AsyncExitStack, tmp_path: Path, era: str
) -> None:
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    opened = await client.call_tool("order", {"item": "tea"})
    assert facts_of(opened)["opened"] is True
    saga = opened.structured_content["saga"]["id"]
    listed = (await client.call_tool("saga_status", {})).structured_content["sagas"]
    assert [entry["saga_id"] for entry in listed] == [saga]
    await client.call_tool("saga_abort", {"saga_id": saga})
    assert shop.orders == {}


async def test_where_ids_are_required_a_call_without_one_is_refused(
    stack: AsyncExitStack, tmp_path: Path, era: str
) -> None:
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era, replace(SETTINGS, saga_id_required=True))
    refused = await client.call_tool("order", {"item": "tea"})
    assert facts_of(refused)["code"] == "saga_id_missing"
    assert shop.orders == {}


async def test_a_read_opens_no_saga_and_gains_nothing(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    """SEMANTICS.md S11.2."""
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    read = await client.call_tool("stock", {})
    assert read.structured_content == {"result": []}
    assert shop.asked == 1
    assert "saga" not in (read.meta or {})
    assert (await client.call_tool("saga_status", {})).structured_content["sagas"] == []


@pytest.mark.case(104)
async def test_a_long_abort_answers_in_time_and_goes_on(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    """Never need more time than the worst client gives."""
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era, replace(SETTINGS, reply_within_s=0.1))
    saga = await begin(client)
    await client.call_tool("order", {"item": "tea", "saga_id": saga})
    shop.undo_may_end = anyio.Event()
    with anyio.fail_after(5):
        going_on = await client.call_tool("saga_abort", {"saga_id": saga, "reason": "changed my mind"})
    assert going_on.is_error is False
    assert "BEING UNDONE: saga_abort was called; 0 of 1 undone so far." in text_of(going_on)
    assert list(shop.orders.values()) == ["tea"]
    view = (await client.call_tool("saga_status", {"saga_id": saga})).structured_content
    assert view["reason"] == "changed my mind"
    assert view["next"] == ["Wait, then saga_status: the server is undoing it. The id takes no calls."]
    shop.undo_may_end.set()
    with anyio.fail_after(5):
        while (await client.call_tool("saga_abort", {"saga_id": saga})).structured_content["state"] != "compensated":
            pass
    assert shop.orders == {}


async def test_an_undo_that_needs_a_person_halts_and_says_so(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    saga = await begin(client)
    await client.call_tool("order", {"item": "tea", "saga_id": saga})
    await client.call_tool("pay", {"cents": 5, "saga_id": saga})
    stuck = await client.call_tool("saga_abort", {"saga_id": saga})
    assert stuck.is_error is True
    assert facts_of(stuck)["code"] == "needs_person"
    assert f"NOT FULLY UNDONE: pay waits for a person (item {saga}.2)" in text_of(stuck)
    assert list(shop.orders.values()) == ["tea"]
    view = (await client.call_tool("saga_status", {"saga_id": saga})).structured_content
    assert view["items"][0]["urgency"] == "high"
    assert view["undo_plan"] == [
        {"step": 2, "tool": "pay", "does": "a person decides"},
        {"step": 1, "tool": "order", "does": "undo", "only_after_a_person": True},
    ]


async def test_past_the_point_of_no_return_an_abort_is_refused(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    shop = Shop()
    client = await connect(stack, shop, tmp_path, era)
    saga = await begin(client)
    await client.call_tool("order", {"item": "tea", "saga_id": saga})
    shipped = await client.call_tool("ship", {"to": "Ada", "saga_id": saga})
    assert text_of(shipped) == (
        f"[saga {saga}: step 2 done. It can no longer be undone. Finish: saga_commit. After 1 h without a step a "
        "person is asked.]"
    )
    refused = await client.call_tool("saga_abort", {"saga_id": saga})
    assert facts_of(refused)["code"] == "pivot_passed"
    assert "ship already succeeded" in text_of(refused)
    assert list(shop.orders.values()) == ["tea"]
    kept = await client.call_tool("saga_commit", {"saga_id": saga})
    assert kept.structured_content["state"] == "committed"


async def test_the_same_key_gives_the_same_saga(stack: AsyncExitStack, tmp_path: Path, era: str) -> None:
    client = await connect(stack, Shop(), tmp_path, era)
    saga = await begin(client, key="task-1")
    assert await begin(client, key="task-1") == saga
    assert await begin(client, key="task-2") != saga
