"""Git, SQLite and Excel servers killed with SIGKILL in the middle of a call; see `test_deaths`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.servers.behind import Behind, node_server, tree
from tests.servers.test_deaths import killed_after, killed_before, lose

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])
COMMIT = "second\n\nIt says more."


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    return Behind(tmp_path, deadly=True)


@pytest.fixture
def repository(behind: Behind) -> str:
    behind.add_git()
    behind.git("branch", "other")
    return str(behind.repository)


@pytest.fixture
def cyanheads(behind: Behind) -> str:
    behind.make_repository()
    behind.git("branch", "other")
    env = {"MCP_TRANSPORT_TYPE": "stdio", "MCP_LOG_LEVEL": "error", "GIT_SIGN_COMMITS": "false"}
    behind.add("git", "git-cyanheads", node_server("@cyanheads/git-mcp-server"), env)
    return str(behind.repository)


def stage(behind: Behind) -> None:
    (behind.repository / "second").write_text("second\n")
    behind.git("add", ".")


def refs(behind: Behind) -> list[str]:
    return [behind.git("for-each-ref"), behind.git("status", "--porcelain", "--branch")]


async def test_a_commit_that_was_not_made_is_not_left(behind: Behind, repository: str) -> None:
    stage(behind)
    await killed_before(behind, lambda: refs(behind), "git_git_commit", {"repo_path": repository, "message": COMMIT})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("git_commit", {"message": COMMIT}), ("git_create_branch", {"branch_name": "third"})],
    ids=["commit", "branch"],
)
async def test_what_was_made_before_the_server_died_is_left_and_said(
    behind: Behind, repository: str, tool: str, arguments: dict[str, Any]
) -> None:
    stage(behind)
    before = refs(behind)
    async with behind.serve() as agent:
        standing = await lose(agent, behind, "after", f"git_{tool}", {"repo_path": repository, **arguments})
        ended = await agent.abort()
    assert (standing["state"], standing["steps"][0]["state"]) == ("active", "succeeded"), standing
    assert "1 residue" in ended["summary"], ended["summary"]
    assert refs(behind) != before


@MOMENTS
async def test_a_checkout_is_found_and_undone(behind: Behind, repository: str, moment: str) -> None:
    killed = killed_before if moment == "before" else killed_after
    arguments = {"repo_path": repository, "branch_name": "other"}
    await killed(behind, lambda: refs(behind), "git_git_checkout", arguments)


@MOMENTS
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("git_commit", {"message": COMMIT}), ("git_checkout", {"target": "other"})],
    ids=["commit", "checkout"],
)
async def test_what_became_of_a_call_of_the_other_git_server_is_found_and_undone(
    behind: Behind, cyanheads: str, tool: str, arguments: dict[str, Any], moment: str
) -> None:
    stage(behind)
    killed = killed_before if moment == "before" else killed_after
    await killed(behind, lambda: refs(behind), f"git_{tool}", {"path": cyanheads, **arguments})


@MOMENTS
async def test_a_table_is_found_and_dropped(behind: Behind, moment: str) -> None:
    behind.add_sqlite()
    killed = killed_before if moment == "before" else killed_after
    query = "create table Things (id integer, name text default 'it''s');"
    await killed(behind, lambda: behind.sql("SELECT * FROM sqlite_master"), "db_create_table", {"query": query})


async def test_an_empty_table_that_was_there_before_is_never_dropped(behind: Behind) -> None:
    behind.add_sqlite()
    behind.write("CREATE TABLE things (id integer)")
    query = "CREATE TABLE things (id integer)"
    async with behind.serve() as agent:
        ended = await lose(agent, behind, "before", "db_create_table", {"query": query})
    assert (ended["state"], ended["steps"][0]["state"]) == ("compensated", "failed"), ended
    assert behind.sql("SELECT name FROM sqlite_master") == [("things",)]


@MOMENTS
async def test_a_workbook_that_was_replaced_is_found_and_put_back(behind: Behind, moment: str) -> None:
    behind.add_excel()
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("excel_create_workbook", path="plan.xlsx")
        await agent.do("excel_create_workbook", path="other.xlsx", sheets=["Other"])
        await agent.do("saga_commit")
    other = base64.b64encode((behind.books / "other.xlsx").read_bytes()).decode()
    killed = killed_before if moment == "before" else killed_after
    arguments = {"path": "plan.xlsx", "content_base64": other, "overwrite": True}
    await killed(behind, lambda: tree(behind.books), "excel_import_workbook", arguments)
