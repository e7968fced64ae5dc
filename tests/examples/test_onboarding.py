"""The onboarding example: three agents on one saga, and a machine that cannot be made."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.examples.outside import Example, saga_of

from saga_mcp.testing import CallFailed, Harness, ServerDied


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    found = Example("onboarding", tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
async def h(example: Example) -> AsyncGenerator[Harness]:
    async with Harness(example.config) as harness:
        yield harness


def journal(example: Example) -> list[object]:
    return [what for (what,) in example.ask("SELECT what FROM journal ORDER BY rowid")]


def left(example: Example) -> list[object]:
    """What there is in the world, refunded charges aside."""
    tables = (
        "SELECT company FROM contact",
        "SELECT cents FROM charge WHERE NOT refunded",
        "SELECT gb FROM disk",
        "SELECT ip FROM address WHERE key IS NOT NULL",
        "SELECT ip FROM machine",
    )
    return [row[0] for table in tables for row in example.ask(table)]


async def onboard(h: Harness, company: str) -> None:
    sales = h.saga(agent="sales")
    await sales.call("create_contact", company=company, email=f"it@{company}.example")
    await h.saga(agent="billing", id=sales.id).call("charge_card", company=company, cents=9900)
    await h.saga(agent="operations", id=sales.id).call("start_machine", company=company, gb=20)
    await sales.commit()


async def test_three_agents_onboard_a_customer(h: Harness, example: Example) -> None:
    await onboard(h, "acme")
    assert left(example) == ["acme", 9900, 20, "203.0.113.7", "203.0.113.7"]
    assert journal(example) == ["contact created", "card charged", "disk made", "address taken", "machine started"]


async def test_a_machine_without_an_address_leaves_nothing_of_itself_and_of_the_others_work(
    h: Harness, example: Example
) -> None:
    await onboard(h, "acme")
    before = left(example)
    sales = h.saga(agent="sales")
    await sales.call("create_contact", company="globex", email="it@globex.example")
    billing = h.saga(agent="billing", id=sales.id)
    await billing.call("charge_card", company="globex", cents=9900)
    operations = h.saga(agent="operations", id=sales.id)
    with pytest.raises(CallFailed, match="no address left"):
        await operations.call("start_machine", company="globex", gb=20)

    assert (sales.state, sales.undone) == ("compensated", ["start_machine", "charge_card", "create_contact"])
    assert journal(example)[-4:] == ["disk made", "disk deleted", "card refunded", "contact removed"]
    assert left(example) == before
    with pytest.raises(CallFailed) as refused:
        await billing.call("charge_card", company="globex", cents=1)
    assert refused.value.code == "saga_aborted"


async def test_a_server_that_dies_after_the_machine_was_made_leaves_nothing_either(
    h: Harness, example: Example
) -> None:
    h.fail("start_machine", when="crash")
    saga = h.saga()
    await saga.call("create_contact", company="acme", email="it@acme.example")
    with pytest.raises(ServerDied):
        await saga.call("start_machine", company="acme", gb=20)
    await saga.rest()
    assert saga.state == "compensated"
    assert left(example) == []
    assert journal(example)[-4:] == ["machine stopped", "address freed", "disk deleted", "contact removed"]


async def test_a_refund_that_is_tried_again_refunds_once(h: Harness, example: Example) -> None:
    h.fail_undo("charge_card", when="after", times=3)
    saga = h.saga()
    await saga.call("charge_card", company="acme", cents=9900)
    await saga.abort()
    assert saga.state == "compensated"
    assert journal(example) == ["card charged", "card refunded"]


async def test_a_charge_without_an_answer_is_found_and_kept(h: Harness, example: Example) -> None:
    h.fail("charge_card", when="lost")
    saga = h.saga()
    with pytest.raises(CallFailed) as unknown:
        await saga.call("charge_card", company="acme", cents=9900)
    assert unknown.value.code == "outcome_unknown"
    await saga.rest()
    await saga.commit()
    assert (saga.state, left(example)) == ("committed", [9900])


async def test_a_customer_who_is_one_already_is_no_effect(h: Harness, example: Example) -> None:
    await onboard(h, "acme")
    saga = h.saga()
    with pytest.raises(CallFailed, match="customer already"):
        await saga.call("create_contact", company="acme", email="sales@acme.example")
    assert saga.steps == [("create_contact", "failed")]
    assert example.ask("SELECT email FROM contact") == [("it@acme.example",)]


@pytest.mark.slow
async def test_three_clients_over_stdio_share_a_saga_by_its_id(example: Example) -> None:
    async with example.served() as sales, example.served() as billing, example.served() as operations:
        missing = await billing.call_tool("charge_card", {"company": "acme", "cents": 9900})
        assert saga_of(missing)["code"] == "saga_id_missing"
        saga_id = saga_of(await sales.call_tool("saga_begin", {"purpose": "onboard acme"}))["id"]
        example.change("DELETE FROM address")
        contact = {"company": "acme", "email": "it@acme.example", "saga_id": saga_id}
        assert not (await sales.call_tool("create_contact", contact)).is_error
        charge = {"company": "acme", "cents": 9900, "saga_id": saga_id}
        assert not (await billing.call_tool("charge_card", charge)).is_error
        machine = {"company": "acme", "gb": 20, "saga_id": saga_id}
        failed = await operations.call_tool("start_machine", machine)
        assert failed.is_error
        assert saga_of(failed)["state"] == "compensated"
    assert journal(example)[2:] == ["disk made", "disk deleted", "card refunded", "contact removed"]
    undone = [event for event in example.events(saga_id) if event.startswith("UNDO_SUCCEEDED")]
    assert undone == [f"UNDO_SUCCEEDED {tool}" for tool in (*["start_machine"] * 3, "charge_card", "create_contact")]
