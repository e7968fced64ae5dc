"""A lost answer proves nothing: it is neither "failed" nor "done", and nothing is sent again on a guess."""

from __future__ import annotations

import sys

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client as SdkClient
from tests.e2e.product import COMMAND, Product
from tests.edge.served import facts_of, texts_of


@pytest.mark.slow
@pytest.mark.case(1)
async def test_a_call_that_took_its_process_with_it_is_unknown_and_is_not_made_again(product: Product) -> None:
    product.configure('on_error = "hold"')
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.ask("wire", cents=5, mode="die_after", saga_id=saga_id)
        await agent.ended.wait()
    async with product.serve() as agent:
        status = await agent.at_rest(saga_id)
        assert (status["state"], status["steps"][0]["state"]) == ("needs_attention", "in_doubt")
        again = await agent.call("wire", cents=5, mode="die_after", saga_id=saga_id)
        assert (again.is_error, again.code) == (True, "outcome_unknown")
        assert again.text.startswith("Outcome of step 1 wire is unknown: it may have happened. Do not call it again.")
        assert (await agent.call("saga_commit", saga_id=saga_id)).code == "commit_refused"
        assert (await agent.call("saga_abort", saga_id=saga_id)).code == "needs_person"
    assert [line.tool for line in product.world.sent()] == ["wire"]


@pytest.mark.slow
@pytest.mark.case(2)
@pytest.mark.parametrize(("tool", "argument"), [("reserve", {"item": "a"}), ("charge", {"cents": 5})])
async def test_a_call_that_timed_out_is_unknown_and_an_abort_takes_it_back_by_its_key(
    product: Product, tool: str, argument: dict[str, object]
) -> None:
    """It hangs after its effect for good, so it counts as ended only at its hard deadline, ten times the limit."""
    async with product.serve(env={"LEDGER_TIMEOUT_S": "0.2"}) as agent:
        saga_id = await agent.begin()
        timed_out = await agent.call(tool, mode="hang_after", saga_id=saga_id, **argument)
        assert (timed_out.is_error, timed_out.code) == (True, "outcome_unknown")
        assert "it may have happened" in timed_out.text
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    done, undone = product.world.did()
    assert done.tool == tool
    assert undone.key == done.key
    assert product.world.standing == []


@pytest.mark.slow
@pytest.mark.case(3)
async def test_where_the_probe_cannot_tell_what_a_kill_left_nothing_is_guessed(product: Product) -> None:
    product.world.plan(find_charge=["fail_before"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.ask("charge", cents=5, mode="die_after", saga_id=saga_id)
        await agent.ended.wait()
    async with product.serve() as agent:
        status = await agent.until(saga_id, "needs_attention")
        assert [step["state"] for step in status["steps"]] == ["in_doubt"]
        assert [item["kind"] for item in status["items"]] == ["in_doubt"]
        assert product.world.standing == ["charge(5)"]
        product.world.plan(find_charge=["ok"])
        code, output = await product.run("probe", f"{saga_id}.1", "--yes")
        assert code == 0, output
        await agent.until(saga_id, "compensated")
    assert [line.tool for line in product.world.did() if line.tool != "find_charge"] == ["charge", "refund"]
    assert len(product.world.sent("refund")) == 1


SLOPPY = """
import math
import os
from pathlib import Path

from pydantic import BaseModel
from saga_tools import ToolRegistry

registry = ToolRegistry()
ANSWERS = {"other field": {"nummer": "seven"}, "no object": "seven", "not a number": {"number": math.nan}}


class Receipt(BaseModel):
    number: float


def note(what):
    with Path(os.environ["LEDGER"]).with_suffix(".sloppy").open("a") as file:
        file.write(what + "\\n")


@registry.tool
async def pay(how: str) -> Receipt:
    "Pay; what it answers is not what it promised."
    note("paid")
    return ANSWERS[how]


@registry.undoes(pay)
async def pay_back() -> None:
    note("paid back")


@registry.tool(kind="read_only")
async def look(how: str) -> Receipt:
    "Look."
    return ANSWERS[how]
"""


@pytest.mark.case(4, 54)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_answer_that_breaks_its_own_schema_is_a_step_that_was_done(product: Product, mode: str) -> None:
    """The SDK's client throws away a success that does not fit the schema, and the id of its saga with it."""
    (product.folder / "sloppy.py").write_text(SLOPPY, encoding="utf-8")
    product.configure(tools='[python.sloppy]\npath = "sloppy.py:registry"')
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND[1:], "serve", "--config", str(product.config)], env=product.world.env
    )
    with anyio.fail_after(20):
        async with SdkClient(parameters, mode=mode) as client:
            await client.list_tools()
            for how, shown in (("other field", "seven"), ("no object", "seven"), ("not a number", "null")):
                paid, looked = [await client.call_tool(tool, {"how": how}) for tool in ("pay", "look")]
                for reply, tool in ((paid, "pay"), (looked, "look")):
                    first, answer, *_ = texts_of(reply)
                    assert first.startswith(f"Not an error: {tool} has done its work. Do not call it again."), how
                    assert shown in answer, how
                saga_id = facts_of(paid)["id"]
                status = await client.call_tool("saga_status", {"saga_id": saga_id})
                assert status.structured_content["steps"][0]["state"] == "succeeded", how
                undone = await client.call_tool("saga_abort", {"saga_id": saga_id})
                assert undone.structured_content["state"] == "compensated", how
    happened = product.world.file.with_suffix(".sloppy").read_text().splitlines()
    assert happened == ["paid", "paid back"] * 3


@pytest.mark.case(7)
@pytest.mark.parametrize(("policy", "undone"), [("halt", ["release(b)"]), ("continue", ["release(b)", "release(a)"])])
async def test_an_undo_that_needs_a_known_outcome_is_never_run_blindly(
    product: Product, policy: str, undone: list[str]
) -> None:
    """The pair's author says which undos are harmless on a step that never took effect; the server does not guess."""
    product.configure(f'on_error = "hold"\non_undo_failure = "{policy}"')
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.call("reserve", item="a", saga_id=saga_id)
        assert (await agent.call("wire", cents=5, mode="err_after", saga_id=saga_id)).code == "outcome_unknown"
        await agent.call("reserve", item="b", saga_id=saga_id)
        stuck = await agent.call("saga_abort", saga_id=saga_id)
        assert (stuck.state, stuck.code) == ("needs_attention", "needs_person")
        assert f"wire waits for a person (item {saga_id}.2)" in stuck.text
    assert [name for name in product.world.order if name.startswith("release")] == undone
    assert product.world.sent("unwire") == []


@pytest.mark.case(7, 33)
async def test_an_undo_that_is_harmless_on_nothing_is_run_for_a_step_that_may_have_had_no_effect(
    product: Product,
) -> None:
    async with product.serve() as agent:
        saga_id = await agent.begin()
        await agent.ask("reserve", item="a", mode="die_before", saga_id=saga_id)
        await agent.ended.wait()
    async with product.serve() as agent:
        await agent.until(saga_id, "compensated")
    assert product.world.order == ["release(a)"]
    assert product.world.did("release")[0].args["id"] is None


@pytest.mark.case(12)
@pytest.mark.parametrize("tool", ["reserve", "hold"])
async def test_an_error_that_a_tool_answers_is_delivered_and_the_tool_is_not_called_again(
    product: Product, tool: str
) -> None:
    product.configure('on_error = "hold"')
    async with product.serve() as agent:
        reply = await agent.call(tool, item="a", mode="err_after")
        assert reply.is_error
        assert reply.text.startswith("RuntimeError: planned: failed after the effect")
        await agent.at_rest(reply.saga_id)
        assert len(product.world.sent(tool)) == 1


LEADS = '''
import os
from pathlib import Path

from saga_tools import Call

PLACE = Path(os.environ["LEDGER"]).with_suffix(".leads")


def create_lead(name: str, call: Call) -> dict[str, int]:
    """Create a lead; the answer is lost."""
    PLACE.mkdir(exist_ok=True)
    (PLACE / call.key).write_text(name)
    raise ConnectionResetError("the connection was reset")


def delete_lead(lead_id: int) -> None:
    """Delete a lead by the id it was given."""
    raise AssertionError("nobody knows the id")


def delete_by_key(key: str) -> None:
    """Delete the lead that was created under a key, if there is one."""
    (PLACE / key).unlink(missing_ok=True)
'''


@pytest.mark.slow
@pytest.mark.case(20)
@pytest.mark.parametrize("known_by", ["result", "key"])
async def test_an_undo_that_needs_an_id_nobody_received_is_warned_of_and_left_to_a_person(
    product: Product, known_by: str
) -> None:
    """With the step's own key, which the tool was given too, the effect is found and undone."""
    undo = {
        "result": '{ tool = "crm.delete_lead", args = { lead_id = "${result.lead_id}" } }',
        "key": '{ tool = "crm.delete_by_key", args = { key = "${step.key}" } }',
    }[known_by]
    (product.folder / "crm.py").write_text(LEADS, encoding="utf-8")
    product.configure(
        tools=f"""
[python.crm]
path = "crm.py"
functions = ["create_lead", "delete_lead", "delete_by_key"]
[tools."crm.create_lead"]
undo = {undo}
"""
    )
    _, checked = await product.run("check")
    assert ("undo names result: a lost reply would go to a person" in checked) == (known_by == "result")
    leads = product.world.file.with_suffix(".leads")
    async with product.serve() as agent:
        reply = await agent.call("create_lead", name="ada")
        status = await agent.at_rest(reply.saga_id)
        if known_by == "key":
            assert status["state"] == "compensated"
            assert list(leads.iterdir()) == []
            return
        assert status["state"] == "needs_attention"
        assert [item["item"] for item in status["items"]] == [f"{reply.saga_id}.1"]
    assert len(list(leads.iterdir())) == 1
    code, shown = await product.run("show", f"{reply.saga_id}.1", "--values")
    assert (code, "ada" in shown) == (0, True), shown
