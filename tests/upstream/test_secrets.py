"""Secret arguments of an upstream's tools, through the command and the SDK's own client."""

from __future__ import annotations

import pytest
from tests.upstream.desk import Desk

ITEM = "sk-4711-visa"


def stored(desk: Desk) -> bool:
    files = [file for file in desk.folder.glob("saga.db*") if file.is_file()]
    assert files
    return any(ITEM.encode() in file.read_bytes() for file in files)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("undo", "is_stored"),
    [
        ('{ tool = "ledger.remove", args = { id = "${result.id}" } }', False),
        ('{ tool = "ledger.remove", args = { id = "${result.id}" }, when = "${args.item != \'x\'}" }', True),
    ],
)
async def test_a_secret_is_stored_only_where_an_expression_names_it(desk: Desk, undo: str, *, is_stored: bool) -> None:
    desk.configure(f'[tools."ledger.add"]\nsecret = ["item"]\nundo = {undo}\n')
    async with desk.serve() as agent:
        await agent.until_up()
        saga = await agent.begin()
        added = await agent.call("ledger_add", item=ITEM, saga_id=saga)
        assert not added.is_error, added.text
        assert stored(desk) is is_stored
        status = await agent.call("saga_status", saga_id=saga)
        _, shown = await desk.run("show", saga, "--timeline", "--values", "--diff")
        _, exported = await desk.run("export", saga, "--values")
        aborted = await agent.call("saga_abort", saga_id=saga)
    assert desk.did == [f"add {ITEM}", f"remove {added.value['structuredContent']['id']}"]
    assert aborted.facts["state"] == "compensated"
    said = f"{status.value}{shown}{exported}{aborted.value}"
    assert '"item": "[secret]"' in said
    assert ITEM not in said


async def test_a_rule_over_an_argument_needs_it(desk: Desk) -> None:
    desk.configure(
        '[tools."ledger.add"]\nsecret = ["item"]\nundo = { tool = "ledger.remove", args = { id = "${result.id}" } }\n',
        more='[[invariants]]\nname = "no x"\ncheck = "${!has(args.item) || args.item != \'x\'}"\n',
    )
    async with desk.serve() as agent:
        await agent.until_up()
        assert not (await agent.call("ledger_add", item=ITEM)).is_error
        broken = await agent.call("ledger_add", item="x")
        assert broken.facts["state"] == "compensated", broken.text
    assert stored(desk)
