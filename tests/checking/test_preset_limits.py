"""Where the presets made from schemas undo nothing: what was so before the step, and what somebody did since.

Told as in `test_preset_undos.py`, before the same stub.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.checking.test_preset_undos import BOTH, CREATED, DONE, WRAPPED, Story, fastmcp, issue, play, structured, told

CONFLICT = "guard_conflict"
"""Of an item: somebody has changed what the step left, and decides."""


def stars(*names: str) -> dict[str, Any]:
    return told([{"id": 1, "name": "r", "full_name": name} for name in names])


STARRED = {"owner": "Acme", "repo": "r"}
URL = {"id": "1", "url": "https://github.com/acme/r/issues/7"}
ISSUE = {"owner": "acme", "repo": "r", "issue_number": 7}
CLOSING = {**ISSUE, "method": "update", "state": "closed"}
OLD_ISSUE: dict[str, Any] = {"title": "t", "body": "b", "state": "open", "assignees": []}
LABELS = [told({**OLD_ISSUE, "labels": [{"name": name}]}) for name in ("old", "new", "a person's")]
IN_PROJECT = [
    told({"gid": "t", "memberships": [{"project": {"gid": "p"}, "section": {"gid": section}}]})
    for section in ("s1", "s2")
]
MOVED = {"page_id": "0", "parent": {"type": "page_id", "page_id": "new"}}
PAGES = {
    parent: told({"object": "page", "parent": {"type": "page_id", "page_id": parent}}) for parent in ("new", "theirs")
}
WORKSPACE = told({"object": "page", "parent": {"type": "workspace", "workspace": True}})
NEW_PROJECT = {"name": "n", "color": "red"}
ADDED = {"id": "p", "name": "n", "description": "", "viewStyle": "list", "childOrder": 1, "isArchived": False}
PROJECT = structured(
    {"projects": [{**ADDED, "isFavorite": False, "isShared": False, "inboxProject": False}], "totalCount": 1}
)
TASKS = [structured({"tasks": tasks, "totalCount": len(tasks)}) for tasks in ([], [{"id": "theirs"}])]
DELETED = structured({"deletedEntity": {"type": "project", "id": "p"}, "success": True})
COMPLETED = structured({"completed": ["1"], "failures": [], "totalRequested": 1, "successCount": 1, "failureCount": 0})
OPENED = structured({"uncompleted": ["1"], "failures": [], "totalRequested": 1, "successCount": 1, "failureCount": 0})
TASK = [structured({"type": "task", "id": "1", "object": {"id": "1", "checked": checked}}) for checked in (False, True)]
UPDATE = structured({"update_id": "9"})
REPLIES = [structured({"updates": [{"replies": replies}]}) for replies in ([], [{"id": "1"}])]
STORIES = [
    Story(
        "github", "star_repository", STARRED,
        {"list_starred_repositories": [stars("b/c")], "star_repository": DONE, "unstar_repository": DONE},
        [("unstar_repository", STARRED)],
    ),
    Story(
        "github", "star_repository", STARRED,
        {"list_starred_repositories": [stars("acme/r")], "star_repository": DONE},
    ),
    Story(
        "github", "star_repository", STARRED,
        {"list_starred_repositories": [stars(*["b/c"] * 100)], "star_repository": DONE},
        asks="unless it had one before",
    ),
    Story(
        "github", "unstar_repository", STARRED,
        {"list_starred_repositories": [stars("b/c")], "unstar_repository": DONE},
    ),
    Story(
        "github", "issue_write", {"method": "create", "owner": "acme", "repo": "r", "title": "t"},
        {"issue_write": [told(URL)], "issue_read": [told({"number": 7, "state": "open"})]},
        [("issue_write", {**CLOSING, "state_reason": "not_planned"})],
    ),
    Story(
        "github", "issue_write", {"method": "create", "owner": "acme", "repo": "r", "title": "t"},
        {"issue_write": [told(URL)], "issue_read": [told({"number": 7, "state": "closed"})]},
    ),
    Story(
        "github", "create_pull_request", {"owner": "acme", "repo": "r", "title": "t", "head": "h", "base": "main"},
        {
            "create_pull_request": [told({"id": "1", "url": "https://github.com/acme/r/pull/8"})],
            "pull_request_read": [told({"number": 8, "state": "closed", "merged": True})],
        },
        asks=CONFLICT,
    ),
    Story(
        "github", "issue_dependency_write",
        {**ISSUE, "method": "add", "related_issue_number": 8, "type": "blocking"},
        {
            "issue_dependency_read": [told({"issues": [{"number": 8, "repository": "acme/r"}]})],
            "issue_dependency_write": DONE,
        },
    ),
    Story(
        "github-archived", "update_issue", {**ISSUE, "labels": ["new"]},
        {"get_issue": LABELS, "update_issue": DONE}, asks=CONFLICT,
    ),
    Story(
        "asana", "asana_add_tag_to_task", {"task_gid": "t", "tag_gid": "g"},
        {"asana_get_task": [told({"gid": "t", "tags": [{"gid": "g"}]})], "asana_add_tag_to_task": [told({})]},
    ),
    Story(
        "asana", "asana_add_project_to_task", {"task_id": "t", "project_id": "p", "section": "s2"},
        {"asana_get_task": IN_PROJECT, "asana_add_project_to_task": [told({})]},
        [("asana_add_project_to_task", {"task_id": "t", "project_id": "p", "section": "s1"})],
    ),
    Story(
        "asana", "asana_create_tag_for_workspace", {"workspace_gid": "w", "name": "n"},
        {"asana_create_tag_for_workspace": [told({"gid": "g"})], "asana_get_tasks_for_tag": [told([{"gid": "t"}])]},
        asks=CONFLICT,
    ),
    Story(
        "trello", "assign_member_to_card", {"cardId": "c", "memberId": "m"},
        {"get_card": [told({"id": "c", "idMembers": ["m"]})], "assign_member_to_card": DONE},
    ),
    Story(
        "trello", "move_card", {"cardId": "c", "listId": "new"},
        {
            "get_card": [told({"id": "c", "idBoard": "b", "idList": each}) for each in ("old", "new")],
            "move_card": DONE,
        },
        [("move_card", {"cardId": "c", "boardId": "b", "listId": "old"})],
    ),
    Story(
        "trello", "move_card", {"cardId": "c", "listId": "new"},
        {
            "get_card": [told({"id": "c", "idBoard": "b", "idList": each}) for each in ("old", "theirs")],
            "move_card": DONE,
        },
        asks=CONFLICT,
    ),
    Story(
        "trello", "add_list_to_board", {"name": "n"},
        {"add_list_to_board": [told({"id": "l"})], "get_cards_by_list_id": [told([{"id": "theirs"}])]},
        asks=CONFLICT,
    ),
    Story(
        "notion", "API-move-page", MOVED,
        {"API-retrieve-a-page": [WORKSPACE, PAGES["new"]], "API-move-page": [told({"object": "page"})]},
        [("API-move-page", {"page_id": "0", "parent": {"type": "workspace"}})],
    ),
    Story(
        "notion", "API-move-page", MOVED,
        {
            "API-retrieve-a-page": [WORKSPACE, PAGES["new"], PAGES["theirs"]],
            "API-move-page": [told({"object": "page"})],
        },
        asks=CONFLICT,
    ),
    Story(
        "notion", "API-delete-a-block", {"block_id": "b"},
        {
            "API-retrieve-a-block": [told({"object": "block", "archived": True})],
            "API-delete-a-block": [told({"object": "block"})],
        },
    ),
    Story(
        "todoist", "add-projects", {"projects": [NEW_PROJECT]},
        {"add-projects": [PROJECT], "find-tasks": [TASKS[0]], "delete-object": [DELETED]},
        [("delete-object", {"type": "project", "id": "p"})],
    ),
    Story(
        "todoist", "add-projects", {"projects": [NEW_PROJECT]}, {"add-projects": [PROJECT], "find-tasks": [TASKS[1]]},
        asks=CONFLICT,
    ),
    Story(
        "todoist", "complete-tasks", {"ids": ["1"]},
        {"fetch-object": [TASK[0]], "complete-tasks": [COMPLETED], "uncomplete-tasks": [OPENED]},
        [("uncomplete-tasks", {"ids": ["1"]})],
    ),
    Story(
        "todoist", "complete-tasks", {"ids": ["1"]}, {"fetch-object": [TASK[1]], "complete-tasks": [COMPLETED]},
    ),
    Story(
        "atlassian", "jira_create_issue", {"project_key": "AB", "summary": "s", "issue_type": "Task"},
        {"jira_create_issue": [CREATED], "jira_get_issue": [fastmcp({"key": "AB-1", "comments": [{"id": "1"}]})]},
        asks=CONFLICT,
    ),
    Story(
        "atlassian", "jira_remove_watcher", {"issue_key": "AB-1", "username": "bob"},
        {
            "jira_get_issue_watchers": [fastmcp({"watchers": [{"account_id": None, "name": "ada"}]})],
            "jira_remove_watcher": WRAPPED,
        },
    ),
    Story(
        "linear", "linear_addIssueLabel", {"issueId": "i1", "labelId": "l1"},
        {"linear_getIssueById": [issue(labels=[{"id": "l1"}])], "linear_addIssueLabel": BOTH},
    ),
    Story(
        "linear", "linear_removeIssueFromProject", {"issueId": "i1", "projectId": "p1"},
        {"linear_getIssueById": [issue(project={"id": "theirs"})], "linear_removeIssueFromProject": BOTH},
        asks=CONFLICT,
    ),
    Story(
        "linear", "linear_createCustomer", {"name": "n"},
        {
            "linear_createCustomer": [structured({"id": "c"})],
            "linear_getCustomerNeeds": [structured({"items": [{"id": "theirs"}]})],
        },
        asks=CONFLICT,
    ),
    Story(
        "monday", "create_update", {"itemId": 5, "body": "b"},
        {"create_update": [UPDATE], "all_api_read": [REPLIES[0]], "delete_update": BOTH},
        [("delete_update", {"id": 9})],
    ),
    Story(
        "monday", "create_update", {"itemId": 5, "body": "b"},
        {"create_update": [UPDATE], "all_api_read": [REPLIES[1]]}, asks=CONFLICT,
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("preset", sorted({story.preset for story in STORIES}))
async def test_an_undo_takes_nothing_that_was_there_before_or_that_others_did_since(
    preset: str, tmp_path: Path
) -> None:
    await play(preset, STORIES, tmp_path)
