"""Arguments, results and habits that are hard on a server: it answers each, keeps its word, and lives."""

from __future__ import annotations

import json

import pytest
from tests.e2e.product import Product


@pytest.mark.parametrize("mode", ["noisy"])
@pytest.mark.parametrize(("tool", "undo"), [("reserve", "release"), ("hold", "unhold")])
async def test_what_a_tool_prints_does_not_reach_the_wire(product: Product, tool: str, undo: str, mode: str) -> None:
    product.world.plan(**{undo: [mode]})
    async with product.serve() as agent:
        reply = await agent.call(tool, item="a", mode=mode)
        assert not reply.is_error
        assert (await agent.call("saga_abort", saga_id=reply.saga_id)).state == "compensated"
        assert len(agent.messages) == 2
    assert "noise" in agent.log


HARD_TEXTS = {
    "lone-surrogate": r'"\ud800"',
    "nul": r'"\u0000"',
    "controls": r'"\u001b[31m\u202e\u0007"',
    "astral": r'"\ud83d\ude00"',
    "long": json.dumps("x" * 300_000),
    "template": r'"${args.item} ${result.id} $${"',
    "quotes": r'"\"\\\n\t"',
}


@pytest.mark.case(10)
@pytest.mark.parametrize("text", HARD_TEXTS.values(), ids=HARD_TEXTS.keys())
async def test_any_text_goes_through_to_the_tool_and_its_undo_unchanged(product: Product, text: str) -> None:
    """Values are never rewritten; or the call is refused before anything is sent."""
    async with product.serve() as agent:
        params = f'{{"name":"reserve","arguments":{{"item":{text}}}}}'
        await agent.raw.send(f'{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{params}}}'.encode())
        answer = await agent.answer_to(77)
        if "error" in answer:
            assert product.world.sent() == [], answer
            return
        reply = await agent.reply_to(77)
        assert (await agent.call("saga_abort", saga_id=reply.saga_id)).state == "compensated"
    done, undone = product.world.did()
    assert done.args["item"] == undone.args["item"] == json.loads(text)


HARD_CALLS = {
    "huge-integer": '"name":"charge","arguments":{"cents":' + "9" * 5000 + "}",
    "beyond-int64": '"name":"charge","arguments":{"cents":9223372036854775808}',
    "infinity": '"name":"charge","arguments":{"cents":1e400}',
    "deep": '"name":"reserve_many","arguments":{"items":' + "[" * 500 + "]" * 500 + "}",
    "saga-id-number": '"name":"reserve","arguments":{"item":"a","saga_id":5}',
    "saga-id-null": '"name":"reserve","arguments":{"item":"a","saga_id":null}',
    "saga-id-empty": '"name":"reserve","arguments":{"item":"a","saga_id":""}',
    "saga-id-long": '"name":"reserve","arguments":{"item":"a","saga_id":"' + "sg-" * 5000 + '"}',
    "saga-id-object": '"name":"saga_abort","arguments":{"saga_id":{}}',
    "arguments-null": '"name":"reserve","arguments":null',
    "no-arguments": '"name":"reserve"',
    "prototype": '"name":"reserve","arguments":{"item":"a","__proto__":{}}',
    "accept-failed": '"name":"saga_commit","arguments":{"saga_id":"sg-1","accept_failed":[99999999999999999999]}',
}


@pytest.mark.parametrize("params", HARD_CALLS.values(), ids=HARD_CALLS.keys())
async def test_a_hard_call_is_answered_and_the_server_lives(product: Product, params: str) -> None:
    async with product.serve() as agent:
        await agent.raw.send(f'{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{{{params}}}}}'.encode())
        answer = await agent.answer_to(77)
        if "result" in answer and not answer["result"].get("isError"):
            saga_id = answer["result"]["_meta"]["saga"]["id"]
            assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
        kept = await agent.call("reserve", item="b")
        assert (await agent.call("saga_commit", saga_id=kept.saga_id)).state == "committed"
    assert product.world.standing == ["reserve(b)"]
