"""What a client that asked for progress is told while it waits (basic/utilities/progress of the specification)."""

from __future__ import annotations

import pytest
from tests.e2e.product import Product
from tests.edge.raw_stdio_client import Message


@pytest.mark.case(104)
async def test_an_abort_tells_how_far_it_has_come(product: Product) -> None:
    product.world.plan(release=["ok", "hang_before"])
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for item in "abc":
            await agent.call("reserve", saga_id=saga_id, item=item)
        asked = await agent.ask_with({"progressToken": "abort-1"}, "saga_abort", saga_id=saga_id)
        told = await agent.notified(lambda params: params["progress"] == 1)
        product.world.go()
        assert (await agent.reply_to(asked)).state == "compensated"
        notifications = [message for message in agent.messages if "id" not in message]
    params = {"progressToken": "abort-1", "progress": 1, "total": 3, "message": "1 of 3 undone"}
    assert told == {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    assert [each["params"]["total"] for each in notifications] == [3] * len(notifications)
    grown = [each["params"]["progress"] for each in notifications]
    assert grown == sorted(set(grown)), "it grows with each notification"


@pytest.mark.case(104)
async def test_nobody_is_told_who_did_not_ask(product: Product) -> None:
    async with product.serve() as agent:
        reply = await agent.call("reserve", item="a")
        await agent.call("saga_abort", saga_id=reply.saga_id)
        assert not [message for message in agent.messages if "id" not in message]


async def test_a_token_changes_nothing_where_there_is_nothing_to_tell(product: Product) -> None:
    token = {"progressToken": 7}
    async with product.serve() as agent:
        plain, tokened = [await agent.reply_to(await agent.ask_with(meta, "reserve", item="a")) for meta in ({}, token)]
        begun = await agent.reply_to(await agent.ask_with(token, "saga_begin"))
        read = await agent.reply_to(await agent.ask_with(token, "balance"))
        assert not [message for message in agent.messages if "id" not in message]

    def shape(result: Message) -> list[str]:
        return sorted(result)

    assert (tokened.is_error, shape(tokened.result)) == (False, shape(plain.result))
    assert not begun.is_error
    assert not read.is_error
