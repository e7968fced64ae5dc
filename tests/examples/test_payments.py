"""The payments example: whatever fails, and wherever, the money and the books are as before."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from tests.examples.outside import EXAMPLES, Example, last_text, saga_of

from saga_mcp.testing import CallFailed, Harness, HarnessSaga, UndoWhen, When

STEPS = {
    "check_policy": {"invoice": "R-17"},
    "pay_invoice": {"invoice": "R-17"},
    "post_ledger": {"invoice": "R-17"},
    "notify_treasury": {"text": "R-17 is paid"},
}
BALANCE = 500_000
UNTOUCHED = {"balance": BALANCE, "cleared": 0, "paid": 0, "booked": 0, "waiting": 0}


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    found = Example("payments", tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
async def h(example: Example) -> AsyncGenerator[Harness]:
    async with Harness(example.config) as harness:
        yield harness


def world(example: Example) -> dict[str, object]:
    """What stands in the world, and is not taken back."""
    queries = {
        "balance": "SELECT cents FROM account",
        "cleared": "SELECT count(*) FROM clearance WHERE NOT withdrawn",
        "paid": "SELECT coalesce(sum(cents), 0) FROM payment WHERE NOT refunded",
        "booked": "SELECT coalesce(sum(cents), 0) FROM entry",
        "waiting": "SELECT count(*) FROM notice WHERE state = 'waiting'",
    }
    return {name: example.ask(query)[0][0] for name, query in queries.items()}


async def pay(saga: HarnessSaga) -> None:
    for tool, arguments in STEPS.items():
        await saga.call(tool, **arguments)


async def test_an_invoice_is_paid_booked_and_told(h: Harness, example: Example) -> None:
    saga = h.saga()
    invoice = await saga.call("read_invoice", number="R-17")
    vendor = await saga.call("read_vendor", name=invoice.vendor)
    assert (invoice.cents, vendor.blocked) == (125_000, False)
    await pay(saga)
    await saga.commit()
    assert saga.state == "committed"
    assert world(example) == {"balance": 375_000, "cleared": 1, "paid": 125_000, "booked": 125_000, "waiting": 1}


@pytest.mark.parametrize("when", ["before", "after", "crash"])
@pytest.mark.parametrize("tool", STEPS)
async def test_whichever_step_fails_everything_is_as_before(
    h: Harness, example: Example, tool: str, when: When
) -> None:
    h.fail(tool, when=when)
    saga = h.saga()
    with pytest.raises(CallFailed):
        await pay(saga)
    await saga.rest()
    if saga.state == "active":  # the probe found the payment: nothing has failed
        assert (tool, saga.steps[-1]) == ("pay_invoice", ("pay_invoice", "succeeded"))
        await saga.abort()
    assert saga.state == "compensated"
    assert world(example) == UNTOUCHED


@pytest.mark.parametrize("tool", ["read_invoice", "read_vendor"])
async def test_a_read_that_fails_undoes_nothing(h: Harness, example: Example, tool: str) -> None:
    saga = h.saga()
    await saga.call("check_policy", invoice="R-17")
    h.fail(tool)
    arguments = {"number": "R-17"} if tool == "read_invoice" else {"name": "Steel & Sons"}
    with pytest.raises(CallFailed):
        await saga.call(tool, **arguments)
    assert await saga.call(tool, **arguments)
    await saga.call("pay_invoice", invoice="R-17")
    await saga.commit()
    assert (saga.state, world(example)["paid"]) == ("committed", 125_000)


@pytest.mark.parametrize("when", ["before", "after", "crash"])
@pytest.mark.parametrize("tool", STEPS)
async def test_an_undo_may_run_twice(h: Harness, example: Example, tool: str, when: UndoWhen) -> None:
    saga = h.saga()
    await pay(saga)
    h.fail_undo(tool, when=when, times=2)
    await saga.abort()
    assert (saga.state, saga.undone) == ("compensated", list(STEPS)[::-1])
    assert world(example) == UNTOUCHED
    assert example.ask("SELECT cents FROM entry ORDER BY rowid") == [(125_000,), (-125_000,)]


async def test_a_blocked_vendor_is_not_paid(h: Harness, example: Example) -> None:
    saga = h.saga()
    with pytest.raises(CallFailed, match="Shady Ltd is blocked"):
        await saga.call("check_policy", invoice="R-19")
    assert (saga.state, world(example)) == ("compensated", UNTOUCHED)


async def test_an_invoice_is_cleared_once(h: Harness, example: Example) -> None:
    first, second = h.saga(), h.saga()
    await first.call("check_policy", invoice="R-17")
    with pytest.raises(CallFailed, match="cleared before"):
        await second.call("check_policy", invoice="R-17")
    await first.abort()
    third = h.saga()
    await pay(third)
    await third.commit()
    assert world(example)["paid"] == 125_000


async def test_an_overdrawn_account_aborts_by_the_name_of_the_rule(h: Harness, example: Example) -> None:
    saga = h.saga()
    await saga.call("check_policy", invoice="R-18")
    await saga.call("pay_invoice", invoice="R-18")
    await saga.rest()
    assert (saga.state, saga.cause) == ("compensated", "invariant:balance_never_negative")
    assert "INVARIANT_VIOLATED      step 2 payments.pay_invoice  the rule 'balance_never_negative'" in saga.timeline
    assert world(example) == UNTOUCHED


async def test_a_delivered_notice_asks_for_a_person_and_what_is_older_waits(h: Harness, example: Example) -> None:
    saga = h.saga()
    await pay(saga)
    example.change("UPDATE notice SET state = 'delivered'")
    await saga.abort()
    [item] = saga.items
    assert (saga.state, item.kind.value, item.step) == ("needs_attention", "manual_undo", 4)
    assert item.message == "The treasury has read: 'R-17 is paid'. Tell them that it no longer holds."
    assert (saga.undone, world(example)["paid"]) == ([], 125_000)


async def test_over_stdio_an_agent_reads_which_rule_was_broken(example: Example) -> None:
    async with example.served() as client:
        first = await client.call_tool("check_policy", {"invoice": "R-18"})
        saga_id = saga_of(first)["id"]
        paid = await client.call_tool("pay_invoice", {"invoice": "R-18", "saga_id": saga_id})
    assert saga_of(paid)["state"] == "compensated"
    assert saga_of(paid)["cause"] == "invariant:balance_never_negative"
    assert f'[saga {saga_id} UNDONE: the rule "balance_never_negative" does not hold' in last_text(paid)
    assert example.events(saga_id)[4:7] == [
        "STEP_SUCCEEDED pay_invoice",
        "INVARIANT_VIOLATED pay_invoice",
        "ABORT_REQUESTED",
    ]
    assert world(example) == UNTOUCHED


@pytest.mark.slow
async def test_over_stdio_a_person_settles_the_notice_and_the_rest_is_undone(example: Example) -> None:
    async with example.served() as client:
        saga_id = saga_of(await client.call_tool("saga_begin", {"purpose": "pay R-17"}))["id"]
        assert not (await client.call_tool("read_invoice", {"number": "R-17"})).is_error
        for tool, arguments in STEPS.items():
            assert not (await client.call_tool(tool, {**arguments, "saga_id": saga_id})).is_error
        example.change("UPDATE notice SET state = 'delivered'")
        aborted = await client.call_tool("saga_abort", {"saga_id": saga_id, "reason": "paid twice"})
        assert saga_of(aborted)["state"] == "needs_attention"

        settle = ["resolve", f"{saga_id}.4", "--undone", "--note", "called them", "--by", "ada", "--yes"]
        await anyio.to_thread.run_sync(example.run, *settle)
        joined = await client.call_tool("saga_abort", {"saga_id": saga_id})
        assert saga_of(joined)["state"] == "compensated"
    assert example.events(saga_id) == [
        "SAGA_OPENED",
        *(f"{event} {tool}" for tool in STEPS for event in ("STEP_INTENDED", "STEP_SUCCEEDED")),
        "ABORT_REQUESTED",
        "UNDO_INTENDED notify_treasury",
        "UNDO_FAILED notify_treasury",
        "UNDO_PARKED notify_treasury",
        "UNDO_RESOLVED notify_treasury",
        *(f"{e} {tool}" for tool in list(STEPS)[-2::-1] for e in ("UNDO_INTENDED", "UNDO_SUCCEEDED")),
        "ROLLBACK_FINISHED",
    ]
    assert world(example) == UNTOUCHED
    trail = example.run("show", saga_id, "--timeline")
    assert "compensated: 3 undone, 1 by a person, 0 open" in trail
    assert [line for line in shown_trail() if line.removesuffix("...") not in trail] == []


def shown_trail() -> list[str]:
    """The audit trail that README.md shows; `...` stands for what it leaves out."""
    readme = (EXAMPLES / "payments" / "README.md").read_text(encoding="utf-8")
    [trail] = [block for block in readme.split("```\n")[1::2] if block.startswith("SAGA_OPENED")]
    return trail.splitlines()
