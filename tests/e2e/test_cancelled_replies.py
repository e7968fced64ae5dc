"""A client that gives a call up before it has read its reply is answered when it asks again: nothing is done twice."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.e2e.product import BOUND_S, COMMAND, Product
from tests.edge.raw_stdio_client import Message, RawClient, started, tool_call

BIG = "x" * 200_000
"""Its reply, which says it twice, is more than a pipe holds together with what a client reads ahead."""


@asynccontextmanager
async def _served(product: Product) -> AsyncGenerator[tuple[RawClient, str]]:
    command = [*COMMAND, "serve", "--config", str(product.config)]
    async with started(command, env={**os.environ, **product.world.env}) as raw:
        await raw.initialize()
        yield raw, _facts(await raw.call("saga_begin", "begin"))["id"]


def _facts(reply: Message) -> dict[str, Any]:
    return cast("dict[str, Any]", reply["result"]["_meta"]["saga"])


def _stdout(raw: RawClient) -> BufferedByteReceiveStream:
    return raw._stdout  # pyright: ignore[reportPrivateUsage]  # the same client


async def _cancel(raw: RawClient, request_id: str) -> None:
    await raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})


async def test_a_call_that_is_cancelled_while_its_reply_fills_the_pipe_is_not_done_twice(product: Product) -> None:
    """S8.1: the reply was never sent."""
    async with _served(product) as (raw, saga_id):
        await raw.send(tool_call("first", "reserve", item=BIG, saga_id=saga_id))
        with anyio.fail_after(BOUND_S):
            begun = await _stdout(raw).receive_exactly(1)
        await _cancel(raw, "first")
        await raw.send(tool_call("again", "reserve", item=BIG, saga_id=saga_id))
        with anyio.fail_after(BOUND_S):
            crossed = json.loads(begun + await _stdout(raw).receive_until(b"\n", 20_000_000))
        again = await raw.receive()
    assert (crossed["id"], again["id"]) == ("first", "again")
    assert (_facts(again)["step"], _facts(again)["replayed"]) == (1, True)
    assert len(product.world.did("reserve")) == 1


async def test_a_cancellation_that_crosses_the_written_reply_has_the_next_call_answered(product: Product) -> None:
    """MCP: who cancels does not look at a reply that arrives afterwards."""
    async with _served(product) as (raw, saga_id):
        assert _facts(await raw.call("reserve", "first", item="a", saga_id=saga_id))["step"] == 1
        await _cancel(raw, "first")
        again = _facts(await raw.call("reserve", "again", item="a", saga_id=saga_id))
        third = _facts(await raw.call("reserve", "third", item="a", saga_id=saga_id))
    assert (again["step"], again["replayed"]) == (1, True)
    assert third["step"] == 2
    assert len(product.world.did("reserve")) == 2


@pytest.mark.parametrize("item", ["a", BIG], ids=["small", "big"])
async def test_an_equal_call_after_a_reply_that_was_read_is_a_second_one(product: Product, item: str) -> None:
    async with _served(product) as (raw, saga_id):
        steps = [
            _facts(await raw.call("reserve", number, item=item, saga_id=saga_id))["step"] for number in range(1, 4)
        ]
    assert steps == [1, 2, 3]
    assert len(product.world.did("reserve")) == 3
