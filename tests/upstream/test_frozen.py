"""What a step keeps of the tools that its undo calls: what is changed later changes new steps only (S4.5, S6.1)."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from tests.upstream.desk import Agent, Desk, eventually

from saga_mcp.domain.values import JsonValue

FAILED_UNDO = """
[tools."ledger.add"]
undo = { tool = "ledger.say", args = { text = "Error: nothing was undone" }, retry = { attempts = 1 } }
"""
SAYS_SO = "failed_when = \"${text.startsWith('Error:')}\""
WORD = """
[tools."ledger.look"]
result = "${text.contains('\\"id\\": 3') ? 'there' : 'gone'}"
"""
"""Reads the list of entries as one word, which is what the pairs below ask for."""
ROLES = {
    "guard": """
[tools."ledger.add"]
undo = { tool = "ledger.remove", args = { id = "${args.id}" } }
guard = { tool = "ledger.look", as_left = "${now.result == 'there'}", as_before = "${now.result == 'gone'}" }
""",
    "capture": """
[tools."ledger.add"]
undo = { tool = "ledger.remove", args = { id = "${args.id}" } }
capture = { tool = "ledger.look" }
guard = "unchanged"
""",
    "read": """
[tools."ledger.add"]
undo = { tool = "ledger.remove", args = { id = "${read.result == 'there' ? 3 : 0}" }, read = { tool = "ledger.look" } }
""",
    "probe": """
[tools."ledger.add"]

[tools."ledger.add".undo]
tool = "ledger.remove"
args = { id = "${args.id}", mode = "die_after" }
probe = { tool = "ledger.look", landed = "${now.result == 'gone'}" }
""",
}


async def undone(agent: Agent, saga_id: str) -> str:
    """Abort, and return the state in which the saga comes to rest."""
    state = (await agent.call("saga_abort", saga_id=saga_id)).facts["state"]
    if state == "compensating":  # what died is started again first
        await agent.until_up()
        return cast("str", (await agent.until(saga_id, "compensated"))["state"])
    return cast("str", state)


async def added(desk: Desk) -> str:
    async with desk.open() as agent:
        await agent.until_up()
        return cast("str", (await agent.call("ledger_add", item="a", id=3)).facts["id"])


async def aborted(desk: Desk, saga_id: str) -> str:
    async with desk.open() as agent:
        await agent.until_up()
        return await undone(agent, saga_id)


async def test_an_undo_that_says_it_failed_has_failed_although_nobody_says_so_any_more(desk: Desk) -> None:
    desk.configure(FAILED_UNDO, upstream=SAYS_SO)
    saga_id = await added(desk)
    desk.configure(FAILED_UNDO)
    assert await aborted(desk, saga_id) == "needs_attention"
    assert desk.did == ["add a", "say Error: nothing was undone"]


async def test_an_undo_that_was_a_success_is_one_although_it_would_be_a_failure_today(desk: Desk) -> None:
    desk.configure(FAILED_UNDO)
    saga_id = await added(desk)
    desk.configure(FAILED_UNDO, upstream=SAYS_SO)
    assert await aborted(desk, saga_id) == "compensated"


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
async def test_what_an_undo_looks_at_is_read_as_it_was_read_at_the_intent(desk: Desk, role: str) -> None:
    desk.configure(ROLES[role] + WORD)
    saga_id = await added(desk)
    desk.configure(ROLES[role])
    assert await aborted(desk, saga_id) == "compensated"
    assert desk.did == ["add a", "remove 3"]


@pytest.mark.parametrize("proves", ["error_means", "no_effect_when"])
async def test_what_an_undos_error_proves_is_what_it_proved_at_the_intent(desk: Desk, proves: str) -> None:
    undo = 'tool = "ledger.remove", args = { id = "${args.id}", mode = "fail_after" }'
    rule = 'error_means = "unknown"' if proves == "error_means" else "no_effect_when = \"${text == 'no'}\""
    tools = f'[tools."ledger.add"]\nundo = {{ {undo}, retry = {{ attempts = 3, first_delay_s = 0.01 }} }}\n'
    desk.configure(tools, upstream=rule)
    saga_id = await added(desk)
    desk.configure(tools)
    async with desk.open() as agent:
        await agent.until_up()
        await agent.call("saga_abort", saga_id=saga_id)
        status = await agent.until(saga_id, "needs_attention")
    assert [item["kind"] for item in status["items"]] == ["undo_in_doubt"]
    assert desk.called("remove") == 1


RETRIED = """
[tools."ledger.add"]
kind = "pivot"

[tools."ledger.say"]
kind = "retriable"
idempotent = true
retry = { attempts = 50, first_delay_s = 0.2, max_delay_s = 0.2 }
"""


@pytest.mark.slow
async def test_a_step_that_is_sent_again_is_judged_as_at_its_intent(desk: Desk) -> None:
    desk.configure(RETRIED, upstream=SAYS_SO, saga="reply_within_s = 1.0")
    async with desk.open() as agent:
        await agent.until_up()
        saga_id = (await agent.call("ledger_add", item="a", id=3)).facts["id"]
        await agent.call("ledger_say", text="Error: not yet", saga_id=saga_id, mode="ok")
    desk.configure(RETRIED)
    async with desk.open() as agent:
        await agent.until_up()
        said = desk.called("say")
        await eventually(lambda: desk.called("say") >= said + 2)
        status = cast("dict[str, Any]", (await agent.call("saga_status", saga_id=saga_id)).value["structuredContent"])
    assert [step["state"] for step in status["steps"]] == ["succeeded", "intended"]


def _without(content: JsonValue, *names: str) -> JsonValue:
    if isinstance(content, dict):
        return {key: _without(value, *names) for key, value in content.items() if key not in names}
    return [_without(value, *names) for value in content] if isinstance(content, list) else content


def as_an_older_version_wrote_it(database: Path) -> None:
    """Take out of the log what pairs did not keep then."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for name, stored in connection.execute("SELECT hash, content FROM saga_pair").fetchall():
            content = _without(json.loads(stored), "rules", "schema")
            text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            older = hashlib.sha256(text.encode()).hexdigest()[:32]
            assert older != name
            connection.execute("UPDATE saga_pair SET hash = ?, content = ? WHERE hash = ?", (older, text, name))
            connection.execute("UPDATE saga_event SET facts = replace(facts, ?, ?)", (name, older))


@pytest.mark.parametrize(("today", "state"), [(SAYS_SO, "needs_attention"), ("", "compensated")])
async def test_a_step_of_an_older_version_is_read_as_the_config_says_today(desk: Desk, today: str, state: str) -> None:
    desk.configure(FAILED_UNDO)
    saga_id = await added(desk)
    as_an_older_version_wrote_it(desk.folder / "saga.db")
    desk.configure(FAILED_UNDO, upstream=today)
    assert await aborted(desk, saga_id) == state


async def shown(desk: Desk, saga_id: str) -> str:
    return (await desk.run("show", f"{saga_id}.1", "--json"))[1]


@pytest.mark.slow
async def test_a_person_is_told_what_has_changed_of_a_tool_that_an_undo_no_longer_fits(desk: Desk) -> None:
    saga_id = await added(desk)
    desk.switch("changed")
    assert await aborted(desk, saga_id) == "needs_attention"
    told = await shown(desk, saga_id)
    assert "schema changed: " in told
    assert "(since the step: `id` is gone; `mode` is gone; `entry` is required now)" in told
    assert desk.called("remove") == 0


@pytest.mark.slow
async def test_an_undo_that_never_fitted_its_tool_is_not_said_to_have_met_another_schema(desk: Desk) -> None:
    desk.configure('[tools."ledger.add"]\nundo = { tool = "ledger.remove", args = { id = "${args.item}" } }\n')
    saga_id = await added(desk)
    assert await aborted(desk, saga_id) == "needs_attention"
    told = await shown(desk, saga_id)
    assert "its arguments do not fit, and the tool's schema is what it was" in told
    assert "schema changed" not in told


async def test_an_undo_that_fits_a_changed_tool_is_sent(desk: Desk) -> None:
    desk.configure('[tools."ledger.add"]\nundo = { tool = "ledger.remove", args = { entry = "${args.item}" } }\n')
    saga_id = await added(desk)
    desk.switch("changed")
    await aborted(desk, saga_id)
    assert desk.called("remove") == 1


PROBED = """
[tools."ledger.add"]
settle_s = 0
undo = { tool = "ledger.remove", args = { id = "${args.id}" } }
probe = { tool = "ledger.look", landed = "${now.result.entries.exists(entry, entry.id == args.id)}" }
"""
NAMES = """
[tools."ledger.say"]
undo = { tool = "ledger.remove", args = { id = "${results.ledger_add.id}" } }
guard = { tool = "ledger.look", as_left = "${now.result.entries[0].item == results.ledger_add.item}" }
[tools."ledger.add"]
undo = { leave = "the entry" }
"""


@pytest.mark.slow
async def test_a_probe_has_as_long_as_it_had_at_the_intent(desk: Desk) -> None:
    desk.configure(PROBED)
    async with desk.open() as agent:
        await agent.until_up()
        desk.switch("down")
        lost = await agent.call("ledger_add", item="a", id=3, mode="die_after")
        await agent.until(lost.facts["id"], "needs_attention")
    desk.switch("down", on=False)
    desk.configure(PROBED + "timeout_s = 0.001\n")
    code, said = await desk.run("probe", f"{lost.facts['id']}.1", "--yes")
    assert "The probe of ledger.add says that it happened." in said, (code, said)


async def test_results_keep_the_names_that_they_had_when_the_step_began(desk: Desk) -> None:
    desk.configure(NAMES)
    async with desk.open() as agent:
        await agent.until_up()
        saga_id = (await agent.call("ledger_add", item="a", id=3)).facts["id"]
        await agent.call("ledger_say", saga_id=saga_id, text="x")
    desk.configure(NAMES, upstream='prefix = "books"')
    async with desk.open() as agent:
        await agent.until_up("books_look")
        await agent.call("saga_abort", saga_id=saga_id)
        await agent.until(saga_id, "compensated")
    assert desk.did == ["add a", "say x", "remove 3"]
