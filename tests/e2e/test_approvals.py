"""A person allows what an agent asked for, in the product as it is started (SEMANTICS.md S9.1)."""

from __future__ import annotations

import json

import pytest
from tests.e2e.product import Product

CHARGES = '[tools."ledger.charge"]\napproval = "${args.cents > 100}"\n'


@pytest.mark.slow
@pytest.mark.case(82)
async def test_an_agent_is_told_to_wait_and_gets_the_answer_of_the_call_that_a_person_allowed(product: Product) -> None:
    product.configure(tools=CHARGES)
    async with product.serve() as agent:
        asked = await agent.call("charge", cents=500)
        assert (asked.code, asked.is_error) == ("approval_needed", True)
        assert asked.text.startswith("Nothing was sent yet: a person has to allow step 1 charge.")
        assert "nothing of it was sent. Until then saga_commit is refused." in asked.text
        assert (await agent.call("saga_commit", saga_id=asked.saga_id)).code == "commit_refused"
        status = await agent.status(asked.saga_id)
        assert status["next"][0].startswith("Tell the user: step 1 waits for a person to allow it")
        assert (status["state"], status["items"][0]["kind"]) == ("active", "approval")
        assert product.world.order == []
        code, said = await product.run("attention")
        assert code == 0
        assert "approve | reject" in said
        code, said = await product.run("approve", f"{asked.saga_id}.1", "--note", "checked", "--yes")
        assert code == 0, said
        told = await agent.call("charge", saga_id=asked.saga_id, cents=500)
        assert (told.code, told.structured["cents"], told.facts["replayed"]) == ("", 500, True)
        await agent.call("saga_abort", saga_id=asked.saga_id)
    assert product.world.order == ["charge(500)", "refund(500)"]


@pytest.mark.slow
@pytest.mark.case(80)
async def test_a_call_is_sent_by_the_command_that_allows_it_where_no_server_lives(product: Product) -> None:
    product.configure(tools=CHARGES)
    async with product.serve() as agent:
        asked = await agent.call("charge", cents=500)
        agent.kill()
    code, said = await product.run("approve", f"{asked.saga_id}.1", "--yes", "--json")
    assert code == 0, said
    assert json.loads(said)["driven_by"] == "this command"
    assert product.world.order == ["charge(500)"]
    code, said = await product.run("approve", f"{asked.saga_id}.1", "--yes")
    assert code == 1
    assert "Nothing waits for a person" in said
    assert product.world.order == ["charge(500)"]


@pytest.mark.slow
async def test_a_rejected_call_is_never_sent_and_the_agent_reads_why(product: Product) -> None:
    product.configure(tools=CHARGES)
    async with product.serve() as agent:
        asked = await agent.call("charge", cents=500)
        code, said = await product.run("reject", f"{asked.saga_id}.1", "--note", "wrong customer", "--yes")
        assert code == 0, said
        again = await agent.call("charge", saga_id=asked.saga_id, cents=500)
        assert again.code == "approval_rejected"
        assert 'They say: "wrong customer".' in again.text
        other = await agent.call("charge", saga_id=asked.saga_id, cents=100)
        assert other.code == ""
    assert product.world.order == ["charge(100)"]


@pytest.mark.case(81)
async def test_no_model_can_allow_a_call(product: Product) -> None:
    product.configure(tools=CHARGES)
    async with product.serve() as agent:
        asked = await agent.call("charge", cents=500)
        for word in ("approved", "approve", "confirm"):
            tried = await agent.call("charge", saga_id=asked.saga_id, cents=500, **{word: True})
            assert tried.code == "invalid_arguments"
        for name in ("approve", "saga_approve"):
            tried = await agent.call(name, saga_id=asked.saga_id)
            assert tried.is_error
    assert product.world.order == []


@pytest.mark.slow
async def test_a_command_that_has_waited_long_enough_does_not_cut_its_call_off(product: Product) -> None:
    product.configure(tools=CHARGES)
    async with product.serve() as agent:
        asked = await agent.call("charge", cents=500, mode="3.5")  # seconds before its effect
        agent.kill()
    code, said = await product.run("approve", f"{asked.saga_id}.1", "--yes", "--wait", "0.2")
    assert "a call is still running; this command stays until it ends" in said
    assert "1 done, 0 open" in said
    assert product.world.order == ["charge(500)"]
    assert code == 0
