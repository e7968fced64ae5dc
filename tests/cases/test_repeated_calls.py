"""What runs twice, and what must not: repeated calls, their spelling, and work that is somebody's already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from tests.e2e.product import Client, Product, Reply
from tests.world.reading import World
from tests.world.scans import CountedScans
from tests.world.server import eventually, served

from saga_mcp.domain.values import Phase
from saga_mcp.log.port import SagaLog, SagaRow

REPLAY = """
[tools."ledger.charge"]
on_repeat = "replay"
[tools."ledger.reserve"]
on_repeat = "replay"
[tools."ledger.reserve_many"]
on_repeat = "replay"
"""


async def _raw(agent: Client, number: int, name: str, arguments: str) -> Reply:
    """A call whose arguments are these very bytes."""
    params = f'{{"name":"{name}","arguments":{arguments}}}'
    await agent.raw.send(f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}'.encode())
    return await agent.reply_to(number)


@pytest.mark.case(8)
async def test_the_same_charge_under_another_request_id_is_answered_from_the_log(product: Product) -> None:
    """A model that plans anew calls again with a fresh id; what stays equal is the arguments."""
    product.configure(tools=REPLAY)
    async with product.serve() as agent:
        saga_id = await agent.begin()
        first = await agent.call("charge", cents=10, saga_id=saga_id)
        again = await agent.call("charge", cents=10, saga_id=saga_id)
        assert (again.facts["step"], again.facts["replayed"]) == (1, True)
        assert again.structured["id"] == first.structured["id"]
        assert "nothing was sent" in again.text
        assert product.world.order == ["charge(10)"]
        meant = await agent.call("charge", cents=10, saga_id=saga_id, step_key="the second one")
        assert (meant.facts["step"], meant.facts.get("replayed")) == (2, None)
    assert product.world.order == ["charge(10)", "charge(10)"]


@pytest.mark.case(10)
async def test_spelling_makes_no_other_call_and_another_value_does(product: Product) -> None:
    """Structure is canonicalised: the order of keys, a default that is left out. Values are never rewritten."""
    product.configure(tools=REPLAY)
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    spellings = [
        f'{{"item":"{composed}","saga_id":"ID"}}',
        f'{{"saga_id":"ID","item":"{composed}"}}',
        f'{{"mode":"ok","saga_id":"ID","item":"{composed}"}}',
        r'{"item":"caf\u00e9","saga_id":"ID"}',
        f'{{"item":"{decomposed}","saga_id":"ID"}}',
    ]
    async with product.serve() as agent:
        saga_id = await agent.begin()
        replies = [
            await _raw(agent, 70 + number, "reserve", text.replace("ID", saga_id))
            for number, text in enumerate(spellings)
        ]
        assert [reply.facts["step"] for reply in replies] == [1, 1, 1, 1, 2]
    assert [line.args["item"] for line in product.world.did()] == [composed, decomposed]


@pytest.mark.case(55)
async def test_an_object_sent_as_text_is_decoded_once_for_the_call_the_log_and_the_undo(product: Product) -> None:
    product.configure(tools=REPLAY)
    async with product.serve() as agent:
        saga_id = await agent.begin()
        as_text = await agent.call("reserve_many", items='["1", "2"]', saga_id=saga_id)
        as_list = await agent.call("reserve_many", items=["1", "2"], saga_id=saga_id)
        assert (as_text.is_error, as_list.facts["step"], as_list.facts["replayed"]) == (False, 1, True)
        refused = await agent.call("reserve_many", items="1, 2", saga_id=saga_id)
        assert (refused.is_error, refused.code) == (True, "invalid_arguments")
        assert len((await agent.status(saga_id))["steps"]) == 1
        await agent.call("saga_abort", saga_id=saga_id)
    assert product.world.sent("reserve_many")[0].args == {"items": ["1", "2"]}
    assert product.world.sent("close_order")[0].args == {"items": ["1", "2"]}
    assert product.world.standing == []


@pytest.mark.case(55)
async def test_text_for_a_text_argument_stays_text_whatever_it_spells(product: Product) -> None:
    texts = ["null", "[1,2]", "7", "true", '{"a": 1}']
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for text in texts:
            assert not (await agent.call("reserve", item=text, saga_id=saga_id)).is_error
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert [line.args["item"] for line in product.world.did()] == [*texts, *texts[::-1]]


@pytest.mark.case(55)
async def test_a_whole_number_is_an_integer_however_a_host_writes_it(product: Product) -> None:
    """Hosts that keep all numbers as doubles write 5.0; beyond a double's digits nothing is guessed."""
    product.configure(tools=REPLAY)
    async with product.serve() as agent:
        saga_id = await agent.begin()
        for number, written in enumerate(("5", "5.0", "5e0")):
            reply = await _raw(agent, 70 + number, "charge", f'{{"cents":{written},"saga_id":"{saga_id}"}}')
            assert (reply.is_error, reply.facts["step"]) == (False, 1)
        for number, written in enumerate(("5.5", "1e300", "true", '"5"')):
            refused = await _raw(agent, 80 + number, "charge", f'{{"cents":{written},"saga_id":"{saga_id}"}}')
            assert refused.code == "invalid_arguments"
        assert (await agent.call("saga_abort", saga_id=saga_id)).state == "compensated"
    assert [repr(line.args["cents"]) for line in product.world.did()] == ["5", "5"]


class _SlowScan(CountedScans):
    """The first scan for what dead processes left has read the log, and is not told so before `go`."""

    def __init__(self, inner: SagaLog) -> None:
        super().__init__(inner)
        self.may_read = anyio.Event()
        self.has_read = anyio.Event()
        self.go = anyio.Event()
        self.found: Sequence[SagaRow] = ()

    async def busy_sagas(self, realm: str) -> Sequence[SagaRow]:
        await self.may_read.wait()
        rows = await super().busy_sagas(realm)
        if not self.has_read.is_set():
            self.found = rows
            self.has_read.set()
            await self.go.wait()
        return rows


@pytest.mark.case(14)
@pytest.mark.parametrize("tool", ["reserve", "hold", "book", "notify"])
async def test_recovery_does_not_adopt_a_step_that_has_just_begun_in_its_own_process(
    world: World, database: Path, tool: str
) -> None:
    """Not even one that may be sent again: it is in the hands of its own task."""
    logs: list[_SlowScan] = []

    def slow(log: SagaLog) -> SagaLog:
        logs.append(_SlowScan(log))
        return logs[0]

    async with served(database, wrap=slow, recovery_every_s=0.02) as server:
        saga_id = await server.begin()
        if tool == "notify":  # which may only follow a pivot
            await server.call("send_mail", saga_id, to="x")
        argument = {"to": "x"} if tool == "notify" else {"item": "x"}
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: server.call(tool, saga_id, mode="hang_before", **argument))
            await eventually(lambda: len(world.sent(tool)) == 1)
            logs[0].may_read.set()
            with anyio.fail_after(10):
                await logs[0].has_read.wait()
            assert [row.id for row in logs[0].found] == [saga_id]
            logs[0].go.set()
            await logs[0].over(3)
            world.go()
        assert (await server.commit(saga_id)).phase is Phase.COMMITTED
    assert len(world.sent(tool)) == len(world.did(tool)) == 1


@pytest.mark.case(33)
async def test_a_step_that_arrives_with_an_abort_is_undone_or_never_sent(product: Product) -> None:
    """Whichever is logged first: no undo without its step, no step after the abort."""
    async with product.serve() as agent:
        for number in range(20):
            saga_id = await agent.begin()
            requests: list[tuple[str, dict[str, object]]] = [("saga_abort", {}), ("reserve", {"item": str(number)})]
            if number % 2:
                requests.reverse()
            asked = [await agent.ask(name, saga_id=saga_id, **arguments) for name, arguments in requests]
            replies = {name: await agent.reply_to(asked[at]) for at, (name, _) in enumerate(requests)}
            assert (await agent.at_rest(saga_id))["state"] == "compensated"
            sent = [line for line in product.world.sent("reserve") if line.args["item"] == str(number)]
            if replies["reserve"].code == "saga_aborted":
                assert sent == []
            else:
                assert len(sent) == 1
    assert product.world.standing == []
    assert len(product.world.did("reserve")) == len(product.world.did("release"))
