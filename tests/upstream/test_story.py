"""A saga over an upstream and a Python tool, through the command and the SDK's own client."""

from __future__ import annotations

from tests.upstream.desk import Desk


async def test_an_abort_undoes_upstream_and_python_steps_last_first(desk: Desk) -> None:
    async with desk.serve() as agent:
        await agent.until_up()
        saga_id = await agent.begin()
        first = await agent.call("ledger_add", item="a", saga_id=saga_id)
        await agent.call("note", text="b", saga_id=saga_id)
        second = await agent.call("ledger_add", item="c", saga_id=saga_id)
        aborted = await agent.call("saga_abort", saga_id=saga_id)
    ids = [result.value["structuredContent"]["id"] for result in (first, second)]
    assert aborted.facts["state"] == "compensated"
    assert desk.did == ["add a", "add c", f"remove {ids[1]}", f"remove {ids[0]}"]
    assert desk.notes == ["note b", "unnote b"]
