"""The states of a step and the moves of an agent over MCP: how each state is reached, and each move made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from tests.e2e.product import Client, Product, Reply
from tests.world.server import eventually

from saga_mcp.domain.approvals import reject
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.frozen import BoundUndo
from saga_mcp.domain.person_decisions import exempt
from saga_mcp.domain.state import Step
from saga_mcp.engine.port import PersonDecision
from saga_mcp.log.port import Decision
from saga_mcp.log.sql import SqlSagaLog

APPROVAL = '[tools."ledger.charge"]\napproval = true\n'
SETTINGS = 'on_error = "hold"\nreply_within_s = 1.0\n'

Way: TypeAlias = Callable[[Product, Client], Awaitable[str]]
"""Leads a new saga, whose id it returns, to where its step 1 is in a state."""
Move: TypeAlias = Callable[[Client, str, "Call"], Awaitable[Reply]]
Call: TypeAlias = tuple[str, Mapping[str, object]]
"""The tool and the arguments of step 1."""


async def _open(client: Client, name: str, **arguments: object) -> str:
    saga_id = await client.begin()
    await client.call(name, saga_id=saga_id, **arguments)
    return saga_id


async def _says(product: Product, saga_id: str, decision: PersonDecision) -> None:
    """A person's command, without the second that it takes to start one."""

    def bind(_: Step) -> BoundUndo:
        raise AssertionError("a person settles this without an undo")

    async with SqlSagaLog.open(product.database) as log:
        await log.decide(saga_id, lambda saga: Decision(events=decision(saga, Driving("", bind))))


async def _awaiting_approval(_: Product, client: Client) -> str:
    return await _open(client, "charge", cents=5)


async def _cancelled(product: Product, client: Client) -> str:
    saga_id = await _awaiting_approval(product, client)
    await _says(product, saga_id, lambda saga, driving: reject(saga, 1, by="ada", note="", driving=driving))
    return saga_id


async def _intended(product: Product, client: Client) -> str:
    saga_id = await client.begin()
    before = len(product.world.sent("reserve"))
    await client.ask("reserve", saga_id=saga_id, item="a", mode="hang_before")
    await eventually(lambda: len(product.world.sent("reserve")) == before + 1)
    return saga_id


async def _succeeded(_: Product, client: Client) -> str:
    return await _open(client, "reserve", item="a")


async def _failed(_: Product, client: Client) -> str:
    return await _open(client, "reserve", item="a", mode="err_before")


async def _in_doubt(_: Product, client: Client) -> str:
    return await _open(client, "wire", cents=5, mode="err_after")


async def _compensating(product: Product, client: Client) -> str:
    product.world.plan(release=["hang_before"])
    saga_id = await _succeeded(product, client)
    await client.call("saga_abort", saga_id=saga_id)
    return saga_id


async def _compensated(_: Product, client: Client) -> str:
    saga_id = await _open(client, "reserve", item="a")
    await client.call("saga_abort", saga_id=saga_id)
    return saga_id


async def _exempt(product: Product, client: Client) -> str:
    saga_id = await _in_doubt(product, client)
    await _says(product, saga_id, lambda saga, driving: exempt(saga, 1, by="ada", note="", driving=driving))
    return saga_id


async def _committed(_: Product, client: Client) -> str:
    saga_id = await _open(client, "reserve", item="a")
    await client.call("saga_commit", saga_id=saga_id)
    return saga_id


async def _pivot(_: Product, client: Client) -> str:
    return await _open(client, "send_mail", to="bob")


WAYS: Mapping[str, tuple[Way, Call]] = {
    "awaiting_approval": (_awaiting_approval, ("charge", {"cents": 5})),
    "cancelled": (_cancelled, ("charge", {"cents": 5})),
    "intended": (_intended, ("reserve", {"item": "a", "mode": "hang_before"})),
    "succeeded": (_succeeded, ("reserve", {"item": "a"})),
    "succeeded, a pivot": (_pivot, ("send_mail", {"to": "bob"})),
    "succeeded, committed": (_committed, ("reserve", {"item": "a"})),
    "failed": (_failed, ("reserve", {"item": "a", "mode": "err_before"})),
    "in_doubt": (_in_doubt, ("wire", {"cents": 5, "mode": "err_after"})),
    "compensating": (_compensating, ("reserve", {"item": "a"})),
    "compensated": (_compensated, ("reserve", {"item": "a"})),
    "exempt": (_exempt, ("wire", {"cents": 5, "mode": "err_after"})),
}


async def _again(client: Client, saga_id: str, call: Call) -> Reply:
    return await client.call(call[0], saga_id=saga_id, **call[1])


async def _keyed(client: Client, saga_id: str, call: Call) -> Reply:
    return await client.call(call[0], saga_id=saga_id, step_key="k", **call[1])


async def _other(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("hold", saga_id=saga_id, item="z")


async def _to_pivot(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("send_mail", saga_id=saga_id, to="eve")


async def _retriable(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("notify", saga_id=saga_id, to="eve")


async def _savepoint(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("saga_savepoint", saga_id=saga_id, name="mark")


async def _commit(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("saga_commit", saga_id=saga_id)


async def _commit_accepting(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("saga_commit", saga_id=saga_id, accept_failed=[1])


async def _abort(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("saga_abort", saga_id=saga_id)


async def _abort_to_nowhere(client: Client, saga_id: str, _: Call) -> Reply:
    return await client.call("saga_abort", saga_id=saga_id, to_savepoint="nowhere")


MOVES: Mapping[str, Move] = {
    "the same call": _again,
    "the same call with a key": _keyed,
    "another call": _other,
    "a pivot": _to_pivot,
    "a retriable call": _retriable,
    "savepoint": _savepoint,
    "commit": _commit,
    "commit, accepting the failure": _commit_accepting,
    "abort": _abort,
    "abort to no mark": _abort_to_nowhere,
}
