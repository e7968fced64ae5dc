"""The preset of the git server, over the server itself: what it undoes, and what it says that it leaves."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
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


def staged_by_a_person(behind: Behind) -> None:
    (behind.repository / "theirs").write_text("theirs\n")
    behind.git("add", "theirs")


def short(behind: Behind) -> None:
    staged_by_a_person(behind)
    behind.git("config", "status.short", "true")


def merging(behind: Behind) -> None:
    behind.git("checkout", "-q", "other")
    (behind.repository / "first").write_text("other\n")
    behind.git("commit", "-qam", "other")
    behind.git("checkout", "-q", "main")
    (behind.repository / "first").write_text("main\n")
    behind.git("commit", "-qam", "main")
    subprocess.run(["git", "merge", "other"], cwd=behind.repository, capture_output=True, check=False)  # noqa: S607 - whichever git this machine has
    (behind.repository / "theirs").write_text("theirs\n")


def intended(behind: Behind) -> None:
    (behind.repository / "theirs").write_text("theirs\n")
    behind.git("add", "-N", "theirs")


@pytest.mark.parametrize("before", [staged_by_a_person, short, merging, intended])
async def test_nothing_is_unstaged_where_a_reset_would_take_more_than_the_step_staged(
    behind: Behind, before: Callable[[Behind], None]
) -> None:
    before(behind)
    (behind.repository / "new").write_text("new\n")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", repo_path=str(behind.repository), files=["new"])
        left = behind.git("ls-files", "--stage", "--debug")
        ended = await agent.abort()
    assert (ended["state"], "1 residue" in ended["summary"]) == ("compensated", True), ended
    assert behind.git("ls-files", "--stage", "--debug") == left


async def test_what_a_saga_staged_in_several_calls_is_unstaged_and_nothing_else(behind: Behind) -> None:
    repository = behind.repository
    behind.saga = 'on_error = "hold"\n'
    for name in ("one", "two"):
        (repository / name).write_text(name)
    before = behind.git("status", "--porcelain")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", repo_path=str(repository), files=["one"])
        await agent.try_to("git_git_add", repo_path=str(repository), files=["nowhere"])
        await agent.do("git_git_add", repo_path=str(repository), files=["two"])
        ended = await agent.abort()
        assert (ended["state"], behind.git("status", "--porcelain")) == ("compensated", before), ended
        await agent.begin()
        await agent.do("git_git_add", repo_path=str(repository), files=["one"])
        staged_by_a_person(behind)
        await agent.do("git_git_add", repo_path=str(repository), files=["two"])
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert behind.git("diff", "--cached", "--name-only") == "one\ntheirs\ntwo\n"


async def test_what_a_person_staged_since_stays_staged(behind: Behind) -> None:
    (behind.repository / "new").write_text("new\n")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", repo_path=str(behind.repository), files=["new"])
        staged_by_a_person(behind)
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert behind.git("diff", "--cached", "--name-only") == "new\ntheirs\n"


async def test_what_a_person_changed_but_did_not_stage_is_no_reason_to_keep_it_staged(behind: Behind) -> None:
    (behind.repository / "new").write_text("new\n")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_add", repo_path=str(behind.repository), files=["new"])
        (behind.repository / "first").write_text("a person's\n")
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert behind.git("status", "--porcelain") == " M first\n?? new\n"


async def test_a_commit_that_a_person_checked_out_since_stays_checked_out(behind: Behind) -> None:
    behind.git("tag", "one")
    (behind.repository / "first").write_text("second\n")
    behind.git("commit", "-qam", "second")
    behind.git("tag", "two")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("git_git_checkout", repo_path=str(behind.repository), branch_name="one")
        ended = await agent.abort()
        assert (ended["state"], behind.git("branch", "--show-current")) == ("compensated", "main\n")
        await agent.begin()
        await agent.do("git_git_checkout", repo_path=str(behind.repository), branch_name="one")
        behind.git("checkout", "-q", "two")
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert behind.git("describe", "--tags") == "two\n"


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
