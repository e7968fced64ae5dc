"""The preset of the git server, over the server itself: what it undoes, and what it says that it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.behind import Behind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path)
    behind.add_git()
    behind.git("branch", "other")
    return behind


async def test_what_was_staged_and_checked_out_is_as_before(behind: Behind) -> None:
    (behind.repository / "new").write_text("new\n")
    repository = str(behind.repository)
    before = behind.git("status", "--porcelain", "--branch")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", repo_path=repository, files=["new"])
        await agent.do("git_git_checkout", repo_path=repository, branch_name="other")
        assert behind.git("branch", "--show-current") == "other\n"
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert behind.git("status", "--porcelain", "--branch") == before


async def test_what_has_no_inverse_is_left_and_said(behind: Behind) -> None:
    (behind.repository / "new").write_text("new\n")
    repository = str(behind.repository)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", repo_path=repository, files=["new"])
        await agent.do("git_git_commit", repo_path=repository, message="second")
        await agent.do("git_git_create_branch", repo_path=repository, branch_name="third")
        await agent.do("git_git_reset", repo_path=repository)
        ended = await agent.abort()
    assert ended["state"] == "compensated"
    assert "3 residue" in ended["summary"], ended["summary"]
    assert behind.git("log", "--format=%s") == "second\nfirst\n"
    assert "third" in behind.git("branch")


async def test_files_stay_staged_where_others_were_staged_before(behind: Behind) -> None:
    (behind.repository / "theirs").write_text("theirs\n")
    (behind.repository / "new").write_text("new\n")
    behind.git("add", "theirs")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", repo_path=str(behind.repository), files=["new"])
        ended = await agent.abort()
    assert "1 residue" in ended["summary"], ended["summary"]
    assert behind.git("diff", "--cached", "--name-only") == "new\ntheirs\n"


async def test_a_branch_that_a_person_checked_out_since_stays_checked_out(behind: Behind) -> None:
    behind.git("branch", "theirs")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_checkout", repo_path=str(behind.repository), branch_name="other")
        behind.git("checkout", "-q", "theirs")
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert behind.git("branch", "--show-current") == "theirs\n"


async def test_without_a_branch_to_go_back_to_a_person_has_to(behind: Behind) -> None:
    behind.git("checkout", "-q", "--detach")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_checkout", repo_path=str(behind.repository), branch_name="other")
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["manual_undo"]
