"""The preset of the filesystem server, over the server itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.behind import Behind, node_server, tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    behind = Behind(tmp_path)
    behind.add_filesystem()
    return behind


async def test_an_abort_brings_back_what_was_there_and_moves_aside_what_was_not(behind: Behind) -> None:
    files = behind.files
    (files / "old").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (files / "gone").write_text("moved")
    (files / "kept").mkdir()
    before = tree(files)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(files / "old"), content="new")
        await agent.do("fs_write_file", path=str(files / "old"), content="newer")
        await agent.do("fs_edit_file", path=str(files / "gone"), edits=[{"oldText": "moved", "newText": "edited"}])
        await agent.do("fs_move_file", source=str(files / "gone"), destination=str(files / "kept" / "there"))
        await agent.do("fs_create_directory", path=str(files / "kept"))
        await agent.do("fs_create_directory", path=f"{files / 'made'}/")
        await agent.do("fs_write_file", path=str(files / "made" / "inside"), content="x")
        await agent.do("fs_write_file", path=str(files / "fresh"), content="y")
        assert tree(files) != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(files) == before
    assert [path.read_text() for path in files.glob("fresh.undone-*")] == ["y"]


async def test_a_commit_keeps_everything(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(behind.files / "new"), content="kept")
        await agent.do("saga_commit")
    assert (behind.files / "new").read_text() == "kept"


async def test_what_a_person_wrote_since_is_not_overwritten(behind: Behind) -> None:
    (behind.files / "plan").write_text("old")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(behind.files / "plan"), content="the agent's")
        (behind.files / "plan").write_text("a person's")
        ended = await agent.abort()
    assert ended["state"] == "needs_attention"
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert (behind.files / "plan").read_text() == "a person's"


async def test_a_file_that_a_person_put_in_the_place_of_a_moved_one_stays_there(behind: Behind) -> None:
    (behind.files / "plan").write_text("old")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_move_file", source=str(behind.files / "plan"), destination=str(behind.files / "moved"))
        (behind.files / "moved").write_text("a person's")
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert (behind.files / "moved").read_text() == "a person's"
    assert not (behind.files / "plan").exists()


async def test_what_was_moved_and_then_changed_goes_back(behind: Behind) -> None:
    files = behind.files
    (files / "folder").mkdir()
    (files / "folder" / "plan").write_text("old")
    before = tree(files)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_move_file", source=str(files / "folder"), destination=str(files / "moved"))
        await agent.do("fs_move_file", source=str(files / "moved" / "plan"), destination=str(files / "note"))
        await agent.do("fs_write_file", path=str(files / "note"), content="new and longer")
        await agent.do("fs_write_file", path=str(files / "moved" / "more"), content="new")
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(files) == before


@pytest.mark.parametrize("before", ["old", None])
async def test_what_is_written_may_be_larger_than_what_is_kept(behind: Behind, before: str | None) -> None:
    if before is not None:
        (behind.files / "plan").write_text(before)
    there = tree(behind.files)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(behind.files / "plan"), content="n" * 5_000_000)
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(behind.files) == there


async def test_a_write_that_fails_half_way_is_never_said_to_have_had_no_effect(tmp_path: Path) -> None:
    behind = Behind(tmp_path, saga="probe_for_s = 1.0\n")
    command = node_server("@modelcontextprotocol/server-filesystem")
    behind.files.mkdir()
    full = ["/bin/sh", "-c", 'trap "" XFSZ; ulimit -f 200; exec "$0" "$@"', *command, str(behind.files)]
    behind.add("fs", "filesystem", full)
    (behind.files / "old").write_text("old")
    async with behind.serve() as agent:
        await agent.begin()
        replaced = await agent.try_to("fs_write_file", path=str(behind.files / "old"), content="n" * 900_000)
        settled = await agent.settled()
        assert (replaced.is_error, settled["state"]) == (True, "compensated"), settled  # its probe finds it as it was
        await agent.begin()
        made = await agent.try_to("fs_write_file", path=str(behind.files / "new"), content="n" * 900_000)
        settled = await agent.settled()
    assert 0 < (behind.files / "new").stat().st_size < 900_000
    assert (behind.files / "old").read_text() == "old"
    assert (made.is_error, settled["state"]) == (True, "needs_attention"), settled


async def test_what_a_person_put_into_a_new_folder_stays_there(behind: Behind) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_create_directory", path=str(behind.files / "made"))
        (behind.files / "made" / "theirs").write_text("a person's")
        ended = await agent.abort()
    assert ended["state"] == "needs_attention"
    assert (behind.files / "made" / "theirs").read_text() == "a person's"


async def test_what_a_person_restored_already_is_left_alone(behind: Behind) -> None:
    (behind.files / "plan").write_text("old")
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(behind.files / "plan"), content="new")
        (behind.files / "plan").write_text("old")
        ended = await agent.abort()
    assert ended["state"] == "compensated"
    assert (behind.files / "plan").read_text() == "old"


async def test_a_file_that_cannot_be_restored_exactly_is_not_written(behind: Behind) -> None:
    (behind.files / "photo").write_bytes(b"\x89PNG\xff\xfe")
    async with behind.serve() as agent:
        await agent.begin()
        reply = await agent.try_to("fs_write_file", path=str(behind.files / "photo"), content="text")
        edit = [{"oldText": "PNG", "newText": "JPG"}]
        edited = await agent.try_to("fs_edit_file", path=str(behind.files / "photo"), edits=edit)
    assert [each.meta["saga"]["code"] for each in (reply, edited)] == ["capture_failed", "capture_failed"]
    assert (behind.files / "photo").read_bytes() == b"\x89PNG\xff\xfe"


async def test_a_preview_is_no_step(behind: Behind) -> None:
    (behind.files / "plan").write_text("old")
    async with behind.serve() as agent:
        await agent.begin()
        edit = [{"oldText": "old", "newText": "new"}]
        await agent.do("fs_edit_file", path=str(behind.files / "plan"), edits=edit, dryRun=True)
        status = await agent.do("saga_status")
        await agent.do("saga_commit")
    assert status["steps"] == []
    assert (behind.files / "plan").read_text() == "old"


@pytest.mark.parametrize("text", ["ENOENT", "ENOENT: no such file or directory, open '/a'"])
async def test_what_reads_like_an_error_of_the_server_is_a_text_like_any_other(behind: Behind, text: str) -> None:
    files = behind.files
    (files / "log").write_text(text)
    (files / "ENOENT.d").mkdir()
    before = tree(files)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(files / "log"), content="new")
        await agent.do("fs_write_file", path=str(files / "fresh"), content=text)
        await agent.do("fs_write_file", path=str(files / "ENOENT: no"), content=text)
        await agent.do("fs_move_file", source=str(files / "ENOENT.d"), destination=str(files / "moved"))
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(files) == before


async def test_a_new_folder_is_moved_aside_whatever_its_name_and_only_while_it_is_empty(behind: Behind) -> None:
    files = behind.files
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_create_directory", path=f"{files}/ENOENT\nsecond/")
        ended = await agent.abort()
        assert (ended["state"], tree(files)) == ("compensated", {})
        await agent.begin()
        await agent.do("fs_create_directory", path=str(files / "made"))
        (files / "made" / "ENOENT.log").write_text("a person's")
        ended = await agent.abort()
    assert ended["state"] == "needs_attention"
    assert (files / "made" / "ENOENT.log").read_text() == "a person's"


async def test_what_a_failed_step_did_not_do_is_not_undone(behind: Behind) -> None:
    (behind.files / "taken").write_text("theirs")
    (behind.files / "mine").write_text("mine")
    before = tree(behind.files)
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("fs_write_file", path=str(behind.files / "mine"), content="changed")
        reply = await agent.try_to(
            "fs_move_file", source=str(behind.files / "mine"), destination=str(behind.files / "taken")
        )
        ended = await agent.abort()
    assert reply.is_error
    assert ended["state"] == "compensated"
    assert tree(behind.files) == before


async def test_agents_read_what_is_not_restored(behind: Behind) -> None:
    async with behind.serve() as agent:
        tools = {tool.name: tool.description or "" for tool in (await agent.client.list_tools()).tools}
        await agent.begin()
        await agent.do("fs_write_file", path=str(behind.files / "new"), content="x")
        plan = (await agent.do("saga_status"))["undo_plan"]
    assert "Not restored: owner, times, set-user and set-group bits, and hard links" in tools["fs_write_file"]
    assert "owner, times, set-user and set-group bits, and hard links" in plan[0]["not_restored"]


async def test_the_check_finds_the_server_as_the_preset_says(behind: Behind) -> None:
    async with behind.serve():
        pass
    checked = behind.run("check")
    assert (checked["errors"], checked["warnings"]) == ([], [])
