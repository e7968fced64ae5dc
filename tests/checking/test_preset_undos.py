"""What the presets made from schemas undo with, where their servers answer as their sources say they do.

No server says in a schema what its texts hold. Here the product calls, keeps and undoes for real, before a stub that
lists what the server lists and answers in its shapes; what the undo asked for is read from the stub's log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.adopting.desk import STUB
from tests.checking.test_presets import LISTED, PRESETS
from tests.upstream.desk import BOUND_S, Agent, Desk

from saga_mcp.tools.upstream.declared import offered_name

Json = dict[str, Any]


def told(value: Any) -> Json:  # noqa: ANN401 - JSON
    """An answer whose one text is JSON."""
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def fastmcp(value: Any) -> Json:  # noqa: ANN401 - JSON
    """The same as FastMCP wraps the text of a tool that returns one."""
    text = json.dumps(value, indent=2)
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}


def structured(value: Json) -> Json:
    return {**told(value), "structuredContent": value}


@dataclass(frozen=True)
class Story:
    """One call, and what undoes it."""

    preset: str
    tool: str
    args: Json
    gives: dict[str, list[Json]]
    """What each tool answers, in turn; the called tool's own answer is the first of its list."""
    undone: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    """Calls of the undo, but for its reads."""
    asks: str = ""
    """What a person is asked to do instead."""


def issue(**fields: Any) -> Json:  # noqa: ANN401 - JSON
    """As Linear's issue is read here."""
    return structured({"id": "i1", "assignee": None, "project": None, "cycle": None, "comments": [], **fields})


def event(**fields: Any) -> Json:  # noqa: ANN401 - JSON
    own = {"id": "e1", "calendarId": "ada@example.org", "accountId": "normal"}
    return told(
        {"event": {**own, "start": {"dateTime": "2026-12-01T10:00:00Z"}, "end": {"date": "2026-12-02"}, **fields}}
    )


LINK = {"id": "77", "type": {"name": "Blocks"}, "outward_issue": {"key": "AB-2"}}
CREATED = fastmcp({"message": "Issue created successfully", "issue": {"id": "1", "key": "AB-1"}})
MEETING = {"summary": "s", "start": "2026-12-01T10:00:00", "end": "2026-12-01T11:00:00"}
DONE, WRAPPED, BOTH = ([answered({"success": True})] for answered in (told, fastmcp, structured))
GROUPS = [structured({"items": [{"group": {"id": group}}]}) for group in ("old", "new")]
RESTRICTED = [
    fastmcp({"read": {"users": users, "groups": []}, "update": {"users": [], "groups": ["g"]}}) for users in (["u"], [])
]
STORIES = [
    Story(
        "atlassian", "jira_create_issue", {"project_key": "AB", "summary": "s", "issue_type": "Task"},
        {"jira_create_issue": [CREATED], "jira_get_issue": [fastmcp({"key": "AB-1"})], "jira_delete_issue": WRAPPED},
        [("jira_delete_issue", {"issue_key": "AB-1"})],
    ),
    Story(
        "atlassian", "jira_batch_create_issues", {"issues": "[]"},
        {
            "jira_batch_create_issues": [fastmcp({"issues": [{"key": "AB-1"}, {"key": "AB-2"}]})],
            "jira_search": [fastmcp({"issues": [{"key": "AB-1"}, {"key": "AB-2", "worklog": {"total": 0}}]})],
            "jira_delete_issue": WRAPPED,
        },
        [("jira_delete_issue", {"issue_key": "AB-1"}), ("jira_delete_issue", {"issue_key": "AB-2"})],
    ),
    Story(
        "atlassian", "jira_assign_issue", {"issue_key": "AB-1", "assignee": "bob"},
        {
            "jira_get_issue": [fastmcp({"key": "AB-1", "assignee": {"account_id": each}}) for each in ("5:a", "5:b")],
            "jira_assign_issue": WRAPPED,
        },
        [("jira_assign_issue", {"issue_key": "AB-1", "assignee": '{"accountId": "5:a"}'})],
    ),
    Story(
        "atlassian", "jira_assign_issue", {"issue_key": "AB-1", "assignee": "bob"},
        {
            "jira_get_issue": [
                fastmcp({"key": "AB-1", "assignee": {"display_name": "Unassigned"}}),
                fastmcp({"key": "AB-1", "assignee": {"account_id": None, "name": "bob"}}),
            ],
            "jira_assign_issue": WRAPPED,
        },
        [("jira_assign_issue", {"issue_key": "AB-1", "assignee": ""})],
    ),
    Story(
        "atlassian", "jira_add_watcher", {"issue_key": "AB-1", "user_identifier": "bob"},
        {
            "jira_get_issue_watchers": [fastmcp({"watchers": [{"account_id": None, "name": "ada"}]})],
            "jira_add_watcher": WRAPPED, "jira_remove_watcher": WRAPPED,
        },
        [("jira_remove_watcher", {"issue_key": "AB-1", "account_id": "bob", "username": "bob"})],
    ),
    Story(
        "atlassian", "jira_add_watcher", {"issue_key": "AB-1", "user_identifier": "ada"},
        {
            "jira_get_issue_watchers": [fastmcp({"watchers": [{"account_id": None, "name": "ada"}]})],
            "jira_add_watcher": WRAPPED,
        },
    ),
    Story(
        "atlassian", "jira_create_issue_link",
        {"link_type": "Blocks", "inward_issue_key": "AB-1", "outward_issue_key": "AB-2"},
        {
            "jira_get_issue": [fastmcp({"key": "AB-1"}), fastmcp({"key": "AB-1", "issuelinks": [LINK]})],
            "jira_create_issue_link": WRAPPED, "jira_remove_issue_link": WRAPPED,
        },
        [("jira_remove_issue_link", {"link_id": "77"})],
    ),
    Story(
        "atlassian", "jira_transition_issue", {"issue_key": "AB-1", "transition_id": "31"},
        {
            "jira_get_issue": [fastmcp({"key": "AB-1", "status": {"name": "To Do"}})],
            "jira_transition_issue": [fastmcp({"issue": {"key": "AB-1"}})],
        },
        asks="Move AB-1 back to To Do.",
    ),
    Story(
        "atlassian", "confluence_create_page", {"space_key": "S", "title": "t", "content": "c"},
        {"confluence_create_page": [fastmcp({"page": {"id": "9"}})], "confluence_delete_page": WRAPPED},
        [("confluence_delete_page", {"page_id": "9"})],
    ),
    Story(
        "atlassian", "confluence_set_page_restrictions", {"page_id": "9"},
        {"confluence_get_page_restrictions": RESTRICTED, "confluence_set_page_restrictions": WRAPPED},
        [
            (
                "confluence_set_page_restrictions",
                {"page_id": "9", "read_users": ["u"], "read_groups": [], "edit_users": [], "edit_groups": ["g"]},
            )
        ],
    ),
    Story(
        "asana", "asana_create_task", {"project_id": "p", "name": "n"},
        {"asana_create_task": [told({"gid": "t1"})], "asana_delete_task": DONE},
        [("asana_delete_task", {"task_id": "t1"})],
    ),
    Story(
        "asana", "asana_update_task", {"task_id": "t1", "completed": True},
        {
            "asana_get_task": [told({"gid": "t1", "completed": each}) for each in (False, True)],
            "asana_update_task": [told({"gid": "t1"})],
        },
        [("asana_update_task", {"task_id": "t1", "completed": False})],
    ),
    Story(
        "asana", "asana_update_task", {"task_id": "t1", "assignee": "u2"},
        {
            "asana_get_task": [told({"gid": "t1", "assignee": each}) for each in (None, {"gid": "u2"})],
            "asana_update_task": [told({"gid": "t1"})],
        },
        asks="Take the assignee off task t1",
    ),
    Story(
        "asana", "asana_set_parent_for_task", {"task_id": "t1", "data": {"parent": "t9"}},
        {
            "asana_get_task": [told({"gid": "t1", "parent": each}) for each in (None, {"gid": "t9"})],
            "asana_set_parent_for_task": [told({"gid": "t1"})],
        },
        [("asana_set_parent_for_task", {"task_id": "t1", "data": {"parent": None}})],
    ),
    Story(
        "google-calendar", "create-events", {"events": [MEETING], "sendUpdates": "all"},
        {
            "create-events": [told({"created": [{"id": "e1", "calendarId": "c", "accountId": "a"}], "failed": [{}]})],
            "delete-event": DONE,
        },
        [("delete-event", {"account": "a", "calendarId": "c", "eventId": "e1", "sendUpdates": "all"})],
    ),
    Story(
        "google-calendar", "update-event", {"calendarId": "primary", "eventId": "e1", "summary": "new"},
        {"get-event": [event(summary="old"), event(summary="new")], "update-event": [event()]},
        [
            (
                "update-event",
                {
                    "account": "normal", "calendarId": "primary", "eventId": "e1", "checkConflicts": False,
                    "summary": "old", "description": "", "location": "",
                    "start": "2026-12-01T10:00:00Z", "end": "2026-12-02", "sendUpdates": "all",
                },
            )
        ],
    ),
    Story(
        "linear", "linear_createIssue", {"title": "t", "teamId": "x"},
        {"linear_createIssue": [structured({"id": "i1"})], "linear_archiveIssue": BOTH},
        [("linear_archiveIssue", {"issueId": "i1"})],
    ),
    Story(
        "linear", "linear_updateIssue", {"id": "i1", "stateId": "s2"},
        {
            "linear_getIssueById": [issue(state={"id": each}) for each in ("s1", "s2")],
            "linear_updateIssue": [structured({"id": "i1"})],
        },
        [("linear_updateIssue", {"id": "i1", "stateId": "s1"})],
    ),
    Story(
        "linear", "linear_assignIssue", {"issueId": "i1", "assigneeId": "u2"},
        {
            "linear_getIssueById": [issue(), issue(assignee={"id": "u2"})],
            "linear_assignIssue": [structured({"success": True})],
        },
        asks="Take the assignee off issue i1",
    ),
    Story(
        "linear", "linear_addIssueToProject", {"issueId": "i1", "projectId": "p2"},
        {
            "linear_getIssueById": [issue(), issue(project={"id": "p2"})],
            "linear_addIssueToProject": BOTH, "linear_removeIssueFromProject": BOTH,
        },
        [("linear_removeIssueFromProject", {"issueId": "i1", "projectId": "p2"})],
    ),
    Story(
        "linear", "linear_addIssueToProject", {"issueId": "i1", "projectId": "p2"},
        {
            "linear_getIssueById": [issue(project={"id": each}) for each in ("p1", "p2")],
            "linear_addIssueToProject": BOTH,
        },
        [("linear_addIssueToProject", {"issueId": "i1", "projectId": "p1"})],
    ),
    Story(
        "monday", "create_item", {"boardId": 1, "name": "n", "columnValues": "{}"},
        {"create_item": [structured({"item_id": "9007199254740995"})], "delete_item": BOTH},
        [("delete_item", {"itemId": 9007199254740995})],
    ),
    Story(
        "monday", "create_items", {"boardId": 1, "items": [{"name": "n", "columnValues": "{}"}]},
        {
            "create_items": [structured({"results": [{"index": 0, "item_id": "5"}, {"index": 1, "error": "no"}]})],
            "delete_item": BOTH,
        },
        [("delete_item", {"itemId": 5})],
    ),
    Story(
        "monday", "move_item_to_group", {"itemId": 5, "groupId": "new"},
        {"all_api_read": GROUPS, "move_item_to_group": [{"content": [{"type": "text", "text": "Item 5 moved"}]}]},
        [("move_item_to_group", {"itemId": 5, "groupId": "old"})],
    ),
    Story(
        "stripe", "create_payment_link", {"price": "p", "quantity": 1},
        {"create_payment_link": [told({"id": "l", "url": "u"})]},
        asks="Deactivate the payment link",
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("preset", sorted({story.preset for story in STORIES}))
async def test_an_undo_asks_the_server_for_what_the_preset_says(preset: str, tmp_path: Path) -> None:
    await play(preset, STORIES, tmp_path)


async def play(preset: str, stories: Sequence[Story], tmp_path: Path) -> None:
    """Call and undo what is told of a preset."""
    desk, log, answers = Desk(tmp_path), tmp_path / "stub.log", tmp_path / "answers.json"
    spec = {"list": str(LISTED / f"{preset}.json"), "log": str(log), "answers": str(answers)}
    command = [f"command = {json.dumps(sys.executable)}", f"args = {json.dumps([str(STUB), json.dumps(spec)])}"]
    head = ['[saga]\nname = "desk"\ndatabase = "sqlite:///saga.db"', "[upstreams.up]", *command]
    desk.config.write_text("\n".join([*head, f'preset = "{preset}"\n']))
    async with desk.open() as agent:
        for story in (each for each in stories if each.preset == preset):
            await until_listed(agent, offered_name("up", story.tool))
            answers.write_text(json.dumps(story.gives))
            saga = await agent.begin()
            answer = await agent.call(offered_name("up", story.tool), saga_id=saga, **story.args)
            assert not answer.is_error, answer.text
            before = len(called(log))
            await agent.call("saga_abort", saga_id=saga)
            await agent.until(saga, "needs_attention" if story.asks else "compensated")
            assert [call for call in called(log)[before:] if call[0] not in READS] == story.undone, story.tool
            if story.asks:
                _, items = await desk.run("attention", "--json")
                assert story.asks in items, (story.tool, items)


READS = {tool for preset in PRESETS for tool in preset.read_only}


def called(log: Path) -> list[tuple[str, Json]]:
    """What has arrived at the stub, in order."""
    calls: list[Json] = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [(call["tool"], call["args"]) for call in calls]


async def until_listed(agent: Agent, tool: str) -> None:
    """Wait until the upstream has told what the tool takes: before that a call is refused."""
    own = {"saga_id", "step_key"}
    with anyio.fail_after(BOUND_S):
        while not {*(await agent.tools())[tool]["inputSchema"].get("properties", {})} - own:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.02)
