"""Rules that a config writes out, in the product as it is started (SEMANTICS.md S9.3)."""

from __future__ import annotations

import pytest
from tests.e2e.product import Product

CEILING = """
[[invariants]]
name = "nothing over 100"
check = "${!has(results.charge) || results.charge.cents <= 100}"
"""


async def test_a_violation_undoes_the_saga_and_names_the_rule_and_the_step(product: Product) -> None:
    product.configure(tools=CEILING)
    async with product.serve() as agent:
        saga_id = (await agent.call("reserve", item="a")).saga_id
        await agent.call("charge", saga_id=saga_id, cents=100)
        over = await agent.call("charge", saga_id=saga_id, cents=101)
        assert 'UNDONE: the rule "nothing over 100" does not hold after step 3 charge' in over.text
        status = await agent.status(saga_id)
        assert (status["state"], status["cause"]["code"]) == ("compensated", "invariant:nothing over 100")
    assert product.world.standing == []


@pytest.mark.parametrize(
    ("check", "kept"),
    [
        ("${args.item != 'bad' && result.item == args.item}", True),
        ("${args.item == 'bad'}", False),
        ("${results.never.called}", False),
    ],
    ids=["of-the-step", "violated", "without-a-value"],
)
async def test_a_rule_sees_the_step_and_fails_closed(product: Product, check: str, *, kept: bool) -> None:
    product.configure(tools=f'[[invariants]]\nname = "rule"\ncheck = "{check}"\n')
    async with product.serve() as agent:
        reply = await agent.call("reserve", item="good")
        assert (reply.state == "active") is kept
    assert (product.world.standing == ["reserve(good)"]) is kept


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[invariants]\nname = 'a'\ncheck = 'true'\n", "must be a list of tables: [[invariants]]"),
        ("[[invariants]]\ncheck = true\n", "invariants[0].name"),
        ("[[invariants]]\nname = 'a'\n", "invariants[0].check"),
        ("[[invariants]]\nname = 'a'\ncheck = '${resutls.a}'\n", "resutls"),
        ("[[invariants]]\nname = 'affordable'\ncheck = true\n", "there is another invariant affordable; rename one"),
    ],
)
async def test_a_rule_that_cannot_be_read_is_a_problem_of_the_config(
    product: Product, table: str, problem: str
) -> None:
    product.configure(tools=table)
    code, said = await product.run("check", "--offline")
    assert code == 2
    assert problem in said
