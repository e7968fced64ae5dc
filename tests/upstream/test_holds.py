"""A `resource` is held by one saga to its end (SEMANTICS.md S9.2), over the real command and between processes."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest
from tests.upstream.desk import Agent, Desk, Result, eventually, raw

HELD = """
[tools."ledger.add"]
resource = "item:${args.item}"
undo = { tool = "ledger.remove", args = { id = "${result.id}" } }

[tools."ledger.say"]
resource = "item:${args.text}"
undo = { manual = "take it back" }
"""


@pytest.fixture
def held(desk: Desk) -> Desk:
    desk.configure(HELD)
    return desk


def refused(answer: Result, holder: str) -> bool:
    """Whether the call was refused because that saga holds what it works on; the holder and the next move are named."""
    said = answer.text
    return answer.facts["code"] == "resource_held" and f'saga {holder} holds "item:a"' in said and "saga_commit" in said


@pytest.mark.slow
@pytest.mark.case(32)
@pytest.mark.parametrize("end", ["saga_commit", "saga_abort"])
async def test_a_second_saga_is_refused_until_the_first_one_has_ended(held: Desk, end: str) -> None:
    async with held.serve() as one, held.serve() as other:
        await one.until_up()
        await other.until_up()
        first, second = await one.begin(), await other.begin()
        await one.call("ledger_add", item="a", saga_id=first)
        await one.call("ledger_add", item="a", saga_id=first)  # its own is not in its way
        answers = [await other.call("ledger_add", item="a", saga_id=second), await other.call("ledger_add", item="a")]
        answers.append(await other.call("ledger_say", text="a", saga_id=second))  # another tool, the same thing
        assert all(refused(answer, first) for answer in answers)
        assert held.called("add") == 2
        assert held.called("say") == 0
        elsewhere = await other.call("ledger_add", item="b", saga_id=second)
        assert elsewhere.facts["state"] == "active", "a refusal undoes nothing"
        await one.call(end, saga_id=first)
        assert not (await other.call("ledger_add", item="a", saga_id=second)).is_error


CODE = """
from saga_tools import ToolRegistry

registry = ToolRegistry()

@registry.tool(resource="note:${args.page}")
def note(page: str) -> str:
    return page

@registry.undoes(note)
def unnote(page: str) -> None: ...
"""


async def test_a_python_tool_holds_what_its_decorator_says(desk: Desk) -> None:
    desk.configure()
    (desk.folder / "notes.py").write_text(CODE, encoding="utf-8")
    async with desk.serve() as agent:
        first, second = await agent.begin(), await agent.begin()
        assert not (await agent.call("note", page="1", saga_id=first)).is_error
        answer = await agent.call("note", page="1", saga_id=second)
        assert answer.facts["code"] == "resource_held"
        assert f'saga {first} holds "note:1"' in answer.text
        assert not (await agent.call("note", page="2", saga_id=second)).is_error
        await agent.call("saga_abort", saga_id=first)
        assert not (await agent.call("note", page="1", saga_id=second)).is_error


@pytest.mark.slow
async def test_a_killed_process_keeps_holding_until_its_saga_is_undone(held: Desk) -> None:
    async with raw(held) as client:
        reply = await client.call("ledger_add", item="a")
        first = reply["result"]["_meta"]["saga"]["id"]
        client.process.kill()
        await client.process.wait()
    async with held.serve() as agent:
        await agent.until_up()
        assert refused(await agent.call("ledger_add", item="a"), first)
        await agent.call("saga_abort", saga_id=first)
        assert not (await agent.call("ledger_add", item="a")).is_error


@pytest.mark.slow
async def test_what_a_saga_holds_is_shown_to_the_agent_and_to_a_person_until_it_is_given_back(held: Desk) -> None:
    async with held.serve() as agent:
        await agent.until_up()
        first = await agent.begin()
        await agent.call("ledger_add", item="a", saga_id=first)
        await agent.call("saga_savepoint", saga_id=first, name="mark")
        await agent.call("ledger_add", item="b", saga_id=first)
        await agent.call("ledger_add", item="a", saga_id=first)
        held_now = {"item:a": 1, "item:b": 2}
        status = await agent.call("saga_status", saga_id=first)
        assert status.value["structuredContent"]["holds"] == ["item:a", "item:b"]
        assert {each["resource"]: each["step"] for each in await shown(held, first)} == held_now
        _, text = await held.run("show", first)
        assert 'holds until it ends: "item:a" (step 1), "item:b" (step 2)' in text
        await agent.call("saga_abort", saga_id=first, to_savepoint="mark")
        assert await shown(held, first) == [{"resource": "item:a", "step": 1}]
        await agent.call("saga_commit", saga_id=first)
        assert "holds" not in (await agent.call("saga_status", saga_id=first)).value["structuredContent"]
        assert await shown(held, first) == []
        _, text = await held.run("show", first)
        assert "holds" not in text


@pytest.mark.slow
async def test_an_allowed_call_that_waits_for_what_another_saga_holds_names_that_saga(desk: Desk) -> None:
    desk.configure(HELD + "approval = true\n")
    async with desk.serve() as agent:
        await agent.until_up()
        first, second = await agent.begin(), await agent.begin()
        await agent.call("ledger_add", item="a", saga_id=first)
        asked = await agent.call("ledger_say", text="a", saga_id=second)
        assert asked.facts["code"] == "approval_needed"
        code, text = await desk.run("approve", f"{second}.1", "--yes")
        assert code == 0, text
        _, text = await desk.run("show", second)
        assert f'and waits for "item:a", which saga {first} holds' in text
        _, text = await desk.run("show", second, "--json")
        (waits,) = json.loads(text)["waits"]
        assert (waits["waits_for"], waits["holder"]) == ("resource", first)
        await agent.call("saga_commit", saga_id=first)
        await eventually(lambda: "say a" in desk.did)


async def shown(desk: Desk, saga_id: str) -> list[dict[str, object]]:
    """What a saga holds, as a program reads it."""
    code, text = await desk.run("show", saga_id, "--json")
    assert code == 0, text
    found: list[dict[str, object]] = json.loads(text)["saga"]["holds"]
    return found


async def test_going_back_behind_the_last_use_gives_it_back(held: Desk) -> None:
    async with held.serve() as agent:
        await agent.until_up()
        first, second = await agent.begin(), await agent.begin()
        await agent.call("saga_savepoint", saga_id=first, name="mark")
        await agent.call("ledger_add", item="a", saga_id=first)
        assert refused(await agent.call("ledger_add", item="a", saga_id=second), first)
        await agent.call("saga_abort", saga_id=first, to_savepoint="mark")
        assert not (await agent.call("ledger_add", item="a", saga_id=second)).is_error
        assert refused(await agent.call("ledger_add", item="a", saga_id=first), second)


@pytest.mark.slow
async def test_what_waits_for_a_person_is_held_until_that_person_has_settled_it(held: Desk) -> None:
    async with held.serve() as agent:
        await agent.until_up()
        said = await agent.call("ledger_say", text="a")
        first = said.facts["id"]
        await agent.call("saga_abort", saga_id=first)
        answer = await agent.call("ledger_add", item="a")
        assert answer.facts["code"] == "resource_held"
        assert f'saga {first} has changed "item:a", and a person has to settle' in answer.text
        code, text = await held.run("resolve", f"{first}.1", "--undone", "--yes", "--note", "done")
        assert code == 0, text
        assert not (await agent.call("ledger_add", item="a")).is_error


@pytest.mark.slow
async def test_of_many_that_want_it_at_once_one_gets_it(held: Desk) -> None:
    answers: list[Result] = []
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(held.serve()) for _ in range(2)]
        for agent in agents:
            await agent.until_up()

        async def add(agent: Agent, saga_id: str) -> None:
            answers.append(await agent.call("ledger_add", item="a", saga_id=saga_id))

        sagas = [(agent, await agent.begin()) for agent in agents for _ in range(10)]
        async with anyio.create_task_group() as tasks:
            for agent, saga_id in sagas:
                tasks.start_soon(add, agent, saga_id)
    assert sum(not answer.is_error for answer in answers) == 1
    assert {answer.facts["code"] for answer in answers if answer.is_error} == {"resource_held"}
    assert held.called("add") == 1


async def test_what_cannot_be_told_is_refused_and_nothing_is_sent(held: Desk) -> None:
    held.configure(HELD.replace("${args.item}", "${args.details.customer}"))
    async with held.serve() as agent:
        await agent.until_up()
        answer = await agent.call("ledger_add", item="a")
    assert answer.facts["code"] == "invalid_arguments"
    assert "what ledger.add works on cannot be told" in answer.text
    assert held.called("add") == 0


async def test_calls_of_an_upstream_that_takes_one_at_a_time_wait_for_each_other(desk: Desk) -> None:
    desk.configure(upstream="one_at_a_time = true")
    async with desk.serve() as agent:
        await agent.until_up()
        async with anyio.create_task_group() as tasks:
            for item in ("a", "b"):
                tasks.start_soon(partial(agent.call, "ledger_add", item=item, mode="hang_before"))
            tasks.start_soon(partial(agent.call, "ledger_look"))
            await eventually(lambda: len(desk.lines) > 1)
            await anyio.sleep(0.3)  # what did not wait would have arrived
            desk.switch("go")
    done = [line["do"] for line in desk.lines if line["do"] in {"called", "add"} and line.get("tool") != "look"]
    assert done == ["called", "add", "called", "add"]
