"""`show` says why a saga is not at rest: who drives it, what its steps wait for and until when, what waits behind."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, cast

import anyio
import pytest
from tests.e2e.product import BOUND_S, Client, Product

SLOW = """
from saga_tools import Retry, ToolRegistry

registry = ToolRegistry()


@registry.tool
async def lend(book: str) -> str:
    return book


@registry.undoes(lend, retry=Retry(attempts=5, first_delay_s=900, max_delay_s=900))
async def take_back(book: str) -> None:
    raise ConnectionError("nobody is at home")
"""
LIMITS = '[tools."ledger.charge"]\ntimeout_s = 20\nhard_deadline_s = 100\n'


async def shown(product: Product, name: str) -> tuple[dict[str, Any], str]:
    """What `show` says to programs, and to people."""
    code, text = await product.run("show", name)
    assert code == 0, text
    code, out = await product.run("show", name, "--json")
    assert code == 0, out
    return cast("dict[str, Any]", json.loads(out)), text


async def until(product: Product, saga_id: str, waits_for: str) -> tuple[dict[str, Any], str]:
    """The same once something waits for that."""
    with anyio.fail_after(BOUND_S * 2):
        while True:
            found, text = await shown(product, saga_id)
            if any(each["waits_for"] == waits_for for each in found["waits"]):
                return found, text


def time(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def begun(agent: Client, tool: str, **arguments: object) -> str:
    """A saga in which that call is under way."""
    saga_id = await agent.begin()
    await agent.ask(tool, saga_id=saga_id, **arguments)
    with anyio.fail_after(BOUND_S):
        while not (await agent.status(saga_id))["steps"]:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.02)
    return saga_id


@pytest.mark.slow
async def test_a_running_call_is_shown_with_its_process_and_its_limits(product: Product) -> None:
    product.configure(tools=LIMITS)
    async with product.serve() as agent:
        saga_id = await begun(agent, "charge", cents=5, mode="hang_before")
        found, text = await shown(product, saga_id)
        pid = agent.raw.process.pid
    (wait,) = found["waits"]
    assert (wait["step"], wait["waits_for"], wait["pid"], found["driver_pid"]) == (1, "call", pid, pid)
    assert time(wait["until"]) - time(wait["since"]) == timedelta(seconds=100)
    assert f"step 1: its call runs since {wait['since'][:19]}Z in pid {pid}, is waited for until " in text
    assert f", and counts as running until {wait['until'][:19]}Z" in text
    assert f"Driven by pid {pid}." in text


@pytest.mark.slow
async def test_what_a_dead_process_left_is_driven_by_nobody(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = await begun(agent, "charge", cents=5, mode="hang_before")
        agent.kill()
        await agent.exits(BOUND_S)
    found, text = await shown(product, saga_id)
    assert (found["driver_pid"], found["waits"][0]["pid"]) == (None, None)
    assert "in a process that is gone" in text
    assert "The next server, or `saga-mcp recover`, looks into what came of it" in text
    assert not found["waits"][0]["overdue"]
    assert "Nobody alive drives it." in text


@pytest.mark.slow
async def test_an_undo_that_is_tried_again_says_when_and_what_waits_behind_it(product: Product) -> None:
    (product.folder / "slow.py").write_text(SLOW)
    product.configure(tools='[python.slow]\npath = "slow.py:registry"\n')
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", saga_id=saga_id, item="a")
        await agent.call("lend", saga_id=saga_id, book="b")
        await agent.ask("saga_abort", saga_id=saga_id)
        found, text = await until(product, saga_id, "undo_attempt")
    (wait,) = found["waits"]
    assert (wait["step"], wait["behind"]) == (2, [1])
    assert time(wait["until"]) - time(wait["since"]) == timedelta(seconds=900)
    assert "step 2: attempt 1 of 5 of its undo slow.take_back failed at " in text
    assert f"and it is attempted again, at {wait['until'][:19]}Z at the latest. Behind it: step 1" in text


@pytest.mark.slow
async def test_an_item_says_which_steps_it_holds_up(product: Product) -> None:
    product.world.plan(refund=["give_up"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", saga_id=saga_id, item="a")
        await agent.call("reserve", saga_id=saga_id, item="b")
        await agent.call("charge", saga_id=saga_id, cents=5)
        await agent.call("saga_abort", saga_id=saga_id)
        await agent.until(saga_id, "needs_attention")
    found, text = await shown(product, saga_id)
    assert [(each["waits_for"], each["step"], each["behind"]) for each in found["waits"]] == [("person", 3, [2, 1])]
    assert "step 3: waits for a person, the undo failed for good" in text
    assert "Behind it: steps 2, 1" in text
    found, text = await shown(product, f"{saga_id}.3")
    assert found["item"]["blocks"] == 2
    assert "Behind it: steps 2, 1" in text
    found, text = await shown(product, f"{saga_id}.1")
    assert found["waits"] == []


@pytest.mark.slow
async def test_a_question_says_until_when_it_can_be_answered(product: Product) -> None:
    product.configure("approval_expires_s = 600", '[tools."ledger.charge"]\napproval = true\n')
    async with product.serve() as agent:
        saga_id = (await agent.call("charge", cents=5)).saga_id
    found, text = await shown(product, saga_id)
    (wait,) = found["waits"]
    assert wait["waits_for"] == "approval"
    assert 599 < (time(wait["until"]) - time(wait["since"])).total_seconds() < 601
    assert "for a person to allow it, at " in text


@pytest.mark.slow
async def test_a_saga_at_rest_waits_for_nothing(product: Product) -> None:
    async with product.serve() as agent:
        saga_id = (await agent.call("charge", cents=5)).saga_id
        await agent.call("saga_abort", saga_id=saga_id)
    found, text = await shown(product, saga_id)
    assert (found["driver_pid"], found["waits"]) == (None, [])
    assert "riven by" not in text
    assert "drives it" not in text
