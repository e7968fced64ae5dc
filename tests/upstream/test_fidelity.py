"""What an upstream says reaches the agent as it was said (DESIGN.md 5.3, SEMANTICS.md S11.1)."""

from __future__ import annotations

import json

import anyio
import pytest
from tests.upstream.desk import BOUND_S, Desk

pytestmark = pytest.mark.timeout(180)  # megabytes, and hundreds of calls

SHOW = 'read_only = ["look", "show"]'
SHOWN_WRITE = '[tools."ledger.show"]\nundo = { leave = "nothing" }\n'


async def test_content_of_every_kind_passes_unchanged_through_a_step(desk: Desk) -> None:
    desk.configure(SHOWN_WRITE)
    async with desk.open() as agent:
        await agent.until_up()
        shown = (await agent.call("ledger_show")).value
    *blocks, exact, ours = shown["content"]
    assert [block["type"] for block in blocks] == [
        "text", "image", "audio", "resource_link", "resource", "resource",
    ]  # fmt: skip
    assert blocks[0]["annotations"] == {"audience": ["user"], "priority": 0.5, "lastModified": None}
    assert blocks[0]["_meta"] == {"a": 1}
    assert blocks[3]["size"] == 3
    assert blocks[4]["resource"]["blob"] == "AA=="
    assert "1180591620717411303424" in exact["text"]  # hosts in JavaScript would round it
    assert ours["text"].startswith("[saga ")
    structured = shown["structuredContent"]
    assert structured["big"] == 2**63 - 1
    assert structured["bigger"] == 2**70
    assert (structured["none"], structured["tiny"], structured["saga"]) == (None, 1e-300, "its own")
    assert shown["_meta"]["example.org/answer"] == {"deep": [1, None]}
    assert structured["saga__facts"]["id"] == shown["_meta"]["saga"]["id"]


async def test_a_read_gains_nothing(desk: Desk) -> None:
    desk.configure(upstream=SHOW.replace("read_only", "#") + "\n")
    desk.config.write_text(desk.config.read_text().replace('read_only = ["look"]', SHOW), encoding="utf-8")
    async with desk.open() as agent:
        await agent.until_up()
        shown = (await agent.call("ledger_show")).value
    assert len(shown["content"]) == 6
    assert shown["structuredContent"]["saga"] == "its own"
    assert "saga" not in shown["_meta"]


async def test_a_tool_is_listed_as_its_upstream_lists_it_and_the_saga_facts(desk: Desk) -> None:
    desk.configure(SHOWN_WRITE + '[tools."ledger.add"]\nundo = { leave = "x" }\n')
    async with desk.open() as agent:
        await agent.until_up()
        tools = await agent.tools()
    add, show = tools["ledger_add"], tools["ledger_show"]
    assert add["title"] == "Add an entry"
    assert add["description"].startswith("Add an entry to the ledger.\n")
    assert {"item", "id", "details", "size", "mode", "saga_id"} == add["inputSchema"]["properties"].keys()
    assert add["outputSchema"]["properties"].keys() == {"id", "item", "saga"}
    assert show["title"] == "Show everything"
    assert show["icons"] == [{"src": "data:image/png;base64,AA=="}]
    assert show["_meta"] == {"example.org/tool": 1}
    assert show["annotations"]["openWorldHint"] is False
    assert show["annotations"]["readOnlyHint"] is False  # a step, whatever the upstream calls it


async def test_megabytes_pass_and_hold_up_nobody(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        big = await agent.call("ledger_add", item="a", size=20_000_000)
    assert len(big.value["structuredContent"]["note"]) == 20_000_000


async def test_two_hundred_calls_at_once_are_two_hundred_effects(desk: Desk) -> None:
    async with desk.open() as agent:
        await agent.until_up()
        saga_id = await agent.begin()

        async def add(number: int) -> None:
            answer = await agent.call("ledger_add", item=f"i{number}", id=number, saga_id=saga_id)
            assert answer.value["structuredContent"]["id"] == number

        with anyio.fail_after(3 * BOUND_S):
            async with anyio.create_task_group() as tasks:
                for number in range(200):
                    tasks.start_soon(add, number)
        looked = json.loads((await agent.call("ledger_look")).text)
    assert {entry["id"] for entry in looked["entries"]} == set(range(200))


async def test_what_a_trusted_upstream_calls_read_only_is_offered(desk: Desk) -> None:
    desk.configure(upstream="trust_read_only_hint = true")
    async with desk.open() as agent:
        await agent.until_up()
        assert {"ledger_look", "ledger_show", "ledger_add"} <= (await agent.tools()).keys()
        assert len((await agent.call("ledger_show")).value["content"]) == 6
        hidden = await agent.call("ledger_say", text="a")
    assert "Unknown tool" in hidden.text
