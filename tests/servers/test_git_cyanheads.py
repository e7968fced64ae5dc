"""The preset of the git server by cyanheads, over the server itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.behind import Behind, node_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path)
    behind.make_repository()
    behind.git("branch", "other")
    env = {"MCP_TRANSPORT_TYPE": "stdio", "MCP_LOG_LEVEL": "error", "GIT_SIGN_COMMITS": "false"}
    behind.add("git", "git-cyanheads", node_server("@cyanheads/git-mcp-server"), env)
    return behind


def seen(behind: Behind) -> list[str]:
    """Everything that git itself says."""
    return [
        behind.git("status", "--porcelain", "--branch"),
        behind.git("for-each-ref"),
        behind.git("rev-parse", "HEAD"),
        behind.git("remote", "-v"),
        behind.git("worktree", "list"),
    ]


async def test_everything_that_can_be_taken_back_is(behind: Behind) -> None:
    (behind.repository / "new").write_text("new\n")
    where = {"path": str(behind.repository)}
    before = seen(behind)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", **where, paths=["new"])
        await agent.do("git_git_commit", **where, message="second")
        await agent.do("git_git_tag", **where, mode="create", tagName="v1")
        await agent.do("git_git_branch", **where, mode="create", branchName="third")
        await agent.do("git_git_branch", **where, mode="rename", branchName="third", newBranchName="fourth")
        await agent.do("git_git_checkout", **where, target="other")
        await agent.do("git_git_checkout", **where, target="fifth", createBranch=True)
        await agent.do("git_git_remote", **where, mode="add", name="up", url="https://example.org/up.git")
        await agent.do("git_git_remote", **where, mode="rename", name="up", newName="down")
        worktree = str(behind.folder / "beside")
        await agent.do("git_git_worktree", **where, mode="add", worktreePath=worktree, branch="sixth")
        assert seen(behind) != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    after = seen(behind)
    # The branch that was made for the work tree is left: the server removes the work tree alone.
    assert [line for line in after[1].splitlines() if "sixth" not in line] == before[1].splitlines()
    assert [after[0], *after[2:]] == [before[0], *before[2:]]


async def test_a_reset_is_taken_back(behind: Behind) -> None:
    (behind.repository / "new").write_text("new\n")
    behind.git("add", "new")
    behind.git("commit", "-qm", "second")
    before = seen(behind)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_reset", path=str(behind.repository), mode="mixed", target="HEAD~1")
        assert seen(behind) != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert seen(behind) == before


async def test_a_commit_that_a_person_has_built_on_stays(behind: Behind) -> None:
    (behind.repository / "new").write_text("new\n")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", path=str(behind.repository), paths=["new"])
        await agent.do("git_git_commit", path=str(behind.repository), message="second")
        behind.git("commit", "-q", "--allow-empty", "-m", "a person's")
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert behind.git("log", "--format=%s") == "a person's\nsecond\nfirst\n"


@pytest.mark.parametrize("mode", ["soft", "mixed"])
async def test_a_reset_that_a_person_has_committed_on_stays(behind: Behind, mode: str) -> None:
    behind.git("commit", "-q", "--allow-empty", "-m", "second")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_reset", path=str(behind.repository), mode=mode, target="HEAD~1")
        behind.git("commit", "-q", "--allow-empty", "-m", "a person's")
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert behind.git("log", "--format=%s") == "a person's\nfirst\n"


async def test_looking_is_no_step(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        for tool in ("branch", "tag", "remote", "stash", "worktree"):
            await agent.do(f"git_git_{tool}", path=str(behind.repository), mode="list")
        status = await agent.do("saga_status")
        await agent.do("saga_commit")
    assert status["steps"] == []
