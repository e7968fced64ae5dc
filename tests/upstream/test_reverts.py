"""Reverts over the real command, an upstream over stdio and the SDK's client: the agent's tool, and what it may do."""

from __future__ import annotations

import json

import pytest
from tests.upstream.desk import Desk

ALLOWED = "agent_may_revert = true"
GUARDED = """
[tools."ledger.add"]
undo = { tool = "ledger.remove", args = { id = "${result.id}" } }
resource = "item:${args.item}"

[tools."ledger.add".guard]
tool = "ledger.look"
as_left = "${now.result.entries.exists(e, e.id == result.id && e.item == args.item)}"
as_before = "${!now.result.entries.exists(e, e.id == result.id)}"

[tools."ledger.say"]
undo = { leave = "the line" }
"""


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_agent_reverts_what_its_undos_look_at_first(desk: Desk, era: str) -> None:
    desk.configure(GUARDED, saga=ALLOWED)
    async with desk.serve(era=era) as agent:
        await agent.until_up()
        old = await agent.begin()
        for item in ("a", "b"):
            await agent.call("ledger_add", item=item, saga_id=old)
        await agent.call("ledger_say", text="hello", saga_id=old)
        await agent.call("saga_commit", saga_id=old)
        reverted = await agent.call("saga_revert", saga_id=old, reason="the user asked")
        new = reverted.facts["id"]
        assert not reverted.is_error
        assert reverted.facts["state"] == "compensated"
        assert reverted.text.startswith(f"[saga {new} REVERTS {old}: 2 undone, 1 residue, 0 open.")
        status = (await agent.call("saga_status", saga_id=old)).value["structuredContent"]
        assert (status["state"], status["reverted_by"]) == ("committed", [new])
        assert status["summary"] == f"committed: 3 done, 0 open; reverted by {new}"
        other = (await agent.call("saga_status", saga_id=new)).value["structuredContent"]
        assert (other["reverts"], other["reason"]) == (old, "the user asked")
        assert [step["undoes"] for step in other["steps"]] == [1, 2, 3]
        again = await agent.call("saga_revert", saga_id=old)
        assert again.facts["code"] == "revert_refused"
        assert f"reverted by {new} already" in again.text
    assert desk.did[:3] == ["add a", "add b", "say hello"]
    assert [done.split()[0] for done in desk.did[3:]] == ["remove", "remove"]


@pytest.mark.slow
async def test_a_change_since_stops_the_agents_revert_and_a_person_is_asked(desk: Desk) -> None:
    desk.configure(GUARDED, saga=ALLOWED)
    async with desk.serve() as agent:
        await agent.until_up()
        old = (await agent.call("ledger_add", item="a")).facts["id"]
        await agent.call("saga_commit", saga_id=old)
        (entry,) = [line for line in desk.lines if line["do"] == "add"]
        with desk.world.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"do": "add", "pid": 0, "id": entry["id"], "item": "a person's"}) + "\n")
        reverted = await agent.call("saga_revert", saga_id=old)
        assert reverted.facts["code"] == "needs_person"
        assert f"REVERTS {old}, NOT FULLY UNDONE: ledger_add waits for a person" in reverted.text
        held = await agent.call("ledger_add", item="a")
        assert held.facts["code"] == "resource_held"
        assert desk.called("remove") == 0
    code, said = await desk.run("attention")
    assert code == 0
    assert "guard_conflict" in said
    code, said = await desk.run("resolve", f"{reverted.facts['id']}.1", "--keep", "--yes", "--by", "ada")
    assert (code, said.strip().splitlines()[-1]) == (
        0,
        f"{reverted.facts['id']}  compensated: 0 undone, 1 exempt (ada), 0 open",
    )
    assert desk.called("remove") == 0


@pytest.mark.slow
async def test_what_nobody_looks_at_is_for_the_operator(desk: Desk) -> None:
    desk.configure(saga=ALLOWED)
    async with desk.serve() as agent:
        await agent.until_up()
        old = (await agent.call("ledger_add", item="a")).facts["id"]
        await agent.call("saga_commit", saga_id=old)
        refused = await agent.call("saga_revert", saga_id=old)
        assert refused.facts["code"] == "revert_refused"
        assert refused.text.startswith(f"Nothing was undone: saga {old} cannot be reverted: step 1 ledger_add")
        assert f"ask the operator: `saga-mcp revert {old}`" in refused.text
        assert desk.called("remove") == 0
        code, said = await desk.run("revert", old, "--yes", "--wait", "30")
        assert code == 0, said
    assert desk.called("remove") == 1


async def test_while_another_saga_holds_what_is_to_be_undone_nothing_is_reverted(desk: Desk) -> None:
    desk.configure(GUARDED, saga=ALLOWED)
    async with desk.serve() as agent:
        await agent.until_up()
        old = (await agent.call("ledger_add", item="a")).facts["id"]
        await agent.call("saga_commit", saga_id=old)
        holder = (await agent.call("ledger_add", item="a")).facts["id"]
        refused = await agent.call("saga_revert", saga_id=old)
        assert refused.facts["code"] == "resource_held"
        assert f'saga {holder} holds "item:a"' in refused.text
        status = (await agent.call("saga_status", saga_id=old)).value["structuredContent"]
        assert "reverted_by" not in status
        await agent.call("saga_abort", saga_id=holder)
        assert (await agent.call("saga_revert", saga_id=old)).facts["state"] == "compensated"


@pytest.mark.slow
async def test_only_where_the_config_says_so_is_the_agent_offered_a_revert(desk: Desk) -> None:
    desk.configure(GUARDED)
    async with desk.open() as agent:
        await agent.until_up()
        without = list(await agent.tools())
        old = (await agent.call("ledger_add", item="a")).facts["id"]
        await agent.call("saga_commit", saga_id=old)
        unknown = await agent.call("saga_revert", saga_id=old)
        assert unknown.is_error
        assert 'Unknown tool "saga_revert"' in unknown.text
    desk.configure(GUARDED, saga=ALLOWED)
    async with desk.open() as agent:
        await agent.until_up()
        tools = await agent.tools()
    assert [name for name in tools if name != "saga_revert"] == without
    assert list(tools)[5] == "saga_revert"
    assert tools["saga_revert"]["annotations"]["destructiveHint"] is True
