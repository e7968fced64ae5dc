"""An answer that did not reach its caller is given once more as it was, and nothing is sent twice (SEMANTICS.md S8)."""

from __future__ import annotations

from tests.upstream.desk import Desk, eventually

SLOW = """
[tools."ledger.say"]
timeout_s = 0.3
undo = { leave = "the line" }
[tools."ledger.show"]
on_repeat = "replay"
undo = { leave = "nothing" }
"""


async def test_a_late_answer_in_text_is_given_to_the_call_that_asks_again(desk: Desk) -> None:
    desk.configure(SLOW, saga="reply_within_s = 0.2")
    async with desk.open() as agent:
        await agent.until_up()
        saga_id = await agent.begin()
        first = await agent.call("ledger_say", text="hello", mode="hang_after", saga_id=saga_id)
        assert first.facts["code"] in {"still_running", "outcome_unknown"}
        desk.switch("go")
        await eventually(lambda: desk.did == ["say hello"])
        await agent.until(saga_id, "active")
        again = await agent.call("ledger_say", text="hello", mode="hang_after", saga_id=saga_id)
        while again.facts.get("code") == "outcome_unknown":
            again = await agent.call("ledger_say", text="hello", mode="hang_after", saga_id=saga_id)
    assert again.text.splitlines()[0] == "hello"
    assert desk.called("say") == 1


async def test_every_kind_of_content_comes_back(desk: Desk) -> None:
    desk.configure(SLOW)
    async with desk.open() as agent:
        await agent.until_up()
        saga_id = await agent.begin()
        first = await agent.call("ledger_show", saga_id=saga_id)
        again = await agent.call("ledger_show", saga_id=saga_id)
    assert again.facts["replayed"] is True
    assert again.value["content"][:6] == first.value["content"][:6]
    assert again.value["structuredContent"]["bigger"] == 2**70
    assert again.value["_meta"]["example.org/answer"] == first.value["_meta"]["example.org/answer"]
    assert desk.called("show") == 1
