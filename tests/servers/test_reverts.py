"""Undo after the commit, over the real filesystem server: by its operator, and by the agent where that is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.behind import Behind, tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path, saga="agent_may_revert = true\n")
    behind.add_filesystem()
    (behind.files / "plan").write_text("old")
    (behind.files / "list").write_text("one\n")
    return behind


async def kept(behind: Behind) -> tuple[str, dict[str, str]]:
    """A saga of three steps that an agent has committed, and what was there before it."""
    before = tree(behind.files)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(behind.files / "plan"), content="the agent's")
        await agent.do("fs_write_file", path=str(behind.files / "fresh"), content="new")
        await agent.do("fs_edit_file", path=str(behind.files / "list"), edits=[{"oldText": "one", "newText": "two"}])
        await agent.do("saga_commit")
        return agent.saga, before


async def test_an_operator_brings_back_what_was_there_before_the_saga(behind: Behind) -> None:
    old, before = await kept(behind)
    said = behind.run("revert", old, "--yes", "--by", "ada")
    assert said["reached"], said
    assert [step["unguarded"] for step in said["plan"]["steps"]] == [False, False, False]
    assert said["summary"] == "compensated: 3 undone, 0 open"
    assert tree(behind.files) == before
    assert behind.run("show", old)["summary"].endswith(f"; reverted by {said['saga']['id']}")


async def test_a_persons_later_edit_is_not_overwritten_and_the_older_steps_wait(behind: Behind) -> None:
    old, before = await kept(behind)
    (behind.files / "fresh").write_text("a person's")
    said = behind.run("revert", old, "--yes")
    assert not said["reached"]
    (item,) = said["saga"]["items"]
    assert (item["kind"], item["tool"]) == ("guard_conflict", "fs.write_file")
    assert (behind.files / "fresh").read_text() == "a person's"
    assert (behind.files / "list").read_text() == "one\n"
    assert (behind.files / "plan").read_text() == "the agent's"
    ended = behind.run("resolve", item["item"], "--keep", "--yes", "--by", "ada")
    assert ended["reached"], ended
    (behind.files / "fresh").unlink()
    assert tree(behind.files) == before


async def test_an_agent_reverts_what_it_has_committed_when_its_user_asks(behind: Behind) -> None:
    old, before = await kept(behind)
    async with behind.serve() as agent:
        reply = await agent.do("saga_revert", saga_id=old, reason="the user wants it back")
        agent.saga = reply["saga_id"]
        assert (await agent.settled())["state"] == "compensated"
    assert tree(behind.files) == before
