"""Real servers killed with SIGKILL in the middle of a call: the preset's probe tells what became of it.

Before the server saw the call: there is nothing to undo. After it has answered, unheard: the saga goes on, and an abort
undoes the step. Where the world could be so for another reason, nothing is concluded.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.servers.behind import Agent, Behind, Json, graph, tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EDITS = [{"oldText": "one", "newText": "1"}, {"oldText": "two", "newText": "2"}]
OF_FILES: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "old", "content": "new"}),
    ("write_file", {"path": "fresh", "content": "new"}),
    ("edit_file", {"path": "old", "edits": EDITS[:1]}),
    ("edit_file", {"path": "old", "edits": EDITS}),
    ("edit_file", {"path": "old", "edits": [*EDITS, {"oldText": "\n", "newText": "$&"}]}),
    ("create_directory", {"path": "made/"}),
    ("move_file", {"source": "old", "destination": "kept/moved"}),
    ("move_file", {"source": "kept", "destination": "moved"}),
]
CLEO: dict[str, Any] = {"name": "Cleo", "entityType": "cat", "observations": ["sleeps"]}
ADA: dict[str, Any] = {"name": "Ada", "entityType": "person", "observations": ["likes tea", "is tall"]}
BEN: dict[str, Any] = {"name": "Ben", "entityType": "person", "observations": []}
KNOWS = {"from": "Ada", "to": "Ben", "relationType": "knows"}
OWNS = {"from": "Ben", "to": "Ada", "relationType": "owns"}
OF_GRAPH: list[tuple[str, dict[str, Any]]] = [
    ("create_entities", {"entities": [ADA, CLEO]}),
    ("create_relations", {"relations": [KNOWS, OWNS]}),
    ("add_observations", {"observations": [{"entityName": "Ada", "contents": ["likes tea", "sings"]}]}),
    ("delete_entities", {"entityNames": ["Ada", "Nobody"]}),
    ("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["is tall", "was never said"]}]}),
    ("delete_relations", {"relations": [KNOWS]}),
]


def named(case: tuple[str, dict[str, Any]]) -> str:
    return f"{case[0]} {' '.join(map(str, case[1].values()))[:24]}"


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    return Behind(tmp_path, deadly=True)


@pytest.fixture
def files(behind: Behind) -> Path:
    behind.add_filesystem()
    (behind.files / "old").write_bytes(b"one\r\ntwo\r\n")
    (behind.files / "kept").mkdir()
    (behind.files / "kept" / "inside").write_text("kept")
    return behind.files


@pytest.fixture
def memory(behind: Behind) -> Path:
    behind.add_memory()
    lines = [{"type": "entity", **ADA}, {"type": "entity", **BEN}, {"type": "relation", **KNOWS}]
    behind.graph.write_text("\n".join(map(json.dumps, lines)))
    return behind.graph


def within(folder: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    paths = {"path", "source", "destination"}
    return {key: f"{folder}/{value}" if key in paths else value for key, value in arguments.items()}


async def lose(agent: Agent, behind: Behind, moment: str, tool: str, arguments: dict[str, Any]) -> Json:
    """Call a tool, and kill its server; how the saga stands when that is known."""
    await agent.begin()
    behind.kill(moment, tool.partition("_")[2])
    reply = await agent.try_to(tool, **arguments)
    assert reply.is_error
    return await agent.settled()


async def killed_before(behind: Behind, world: Callable[[], object], tool: str, arguments: dict[str, Any]) -> None:
    before = world()
    async with behind.serve() as agent:
        ended = await lose(agent, behind, "before", tool, arguments)
    assert (ended["state"], ended["steps"][0]["state"]) == ("compensated", "failed"), ended
    assert world() == before


async def killed_after(behind: Behind, world: Callable[[], object], tool: str, arguments: dict[str, Any]) -> None:
    before = world()
    async with behind.serve() as agent:
        standing = await lose(agent, behind, "after", tool, arguments)
        assert (standing["state"], standing["steps"][0]["state"]) == ("active", "succeeded"), standing
        assert world() != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert world() == before


@pytest.mark.parametrize(("tool", "arguments"), OF_FILES, ids=map(named, OF_FILES))
async def test_a_server_of_files_that_never_saw_the_call_has_done_nothing(
    behind: Behind, files: Path, tool: str, arguments: dict[str, Any]
) -> None:
    await killed_before(behind, lambda: tree(files), f"fs_{tool}", within(files, arguments))


@pytest.mark.parametrize(("tool", "arguments"), OF_FILES, ids=map(named, OF_FILES))
async def test_what_a_server_of_files_did_before_it_died_is_found_and_undone(
    behind: Behind, files: Path, tool: str, arguments: dict[str, Any]
) -> None:
    await killed_after(behind, lambda: tree(files), f"fs_{tool}", within(files, arguments))


@pytest.mark.parametrize(("tool", "arguments"), OF_GRAPH, ids=map(named, OF_GRAPH))
async def test_a_graph_that_never_saw_the_call_has_not_changed(
    behind: Behind, memory: Path, tool: str, arguments: dict[str, Any]
) -> None:
    await killed_before(behind, lambda: graph(memory), f"memory_{tool}", arguments)


@pytest.mark.parametrize(("tool", "arguments"), OF_GRAPH, ids=map(named, OF_GRAPH))
async def test_what_became_of_a_graph_before_its_server_died_is_found_and_undone(
    behind: Behind, memory: Path, tool: str, arguments: dict[str, Any]
) -> None:
    await killed_after(behind, lambda: graph(memory), f"memory_{tool}", arguments)


async def test_what_was_said_of_several_entities_is_taken_back_though_no_probe_can_tell(
    behind: Behind, memory: Path
) -> None:
    behind.saga = "probe_for_s = 0.1\n"
    before = graph(memory)
    said = [{"entityName": "Ada", "contents": ["likes tea", "sings"]}, {"entityName": "Ben", "contents": ["snores"]}]
    async with behind.serve() as agent:
        ended = await lose(agent, behind, "after", "memory_add_observations", {"observations": said})
    assert ended["state"] == "compensated", ended
    assert graph(memory) == before


async def test_what_somebody_else_wrote_meanwhile_is_not_taken_for_the_call(behind: Behind, files: Path) -> None:
    behind.saga = "probe_for_s = 0.1\n"
    closed = behind.folder / "closed"
    async with behind.serve() as agent:
        await agent.begin()
        behind.kill("after", "write_file")
        closed.touch()
        await agent.try_to("fs_write_file", path=str(files / "old"), content="the agent's")
        assert (files / "old").read_text() == "the agent's"
        (files / "old").write_text("a person's")
        closed.unlink()
        ended = await agent.settled()
    assert (ended["state"], [item["kind"] for item in ended["items"]]) == ("needs_attention", ["guard_conflict"])
    assert (files / "old").read_text() == "a person's"


async def test_a_folder_that_is_in_use_is_not_taken_for_the_one_that_was_made(behind: Behind, files: Path) -> None:
    behind.saga = "probe_for_s = 0.1\n"
    closed = behind.folder / "closed"
    async with behind.serve() as agent:
        await agent.begin()
        behind.kill("before", "create_directory")
        closed.touch()
        await agent.try_to("fs_create_directory", path=str(files / "made"))
        (files / "made").mkdir()
        (files / "made" / "theirs").write_text("a person's")
        closed.unlink()
        ended = await agent.settled()
    assert ended["state"] == "needs_attention"
    assert (files / "made" / "theirs").read_text() == "a person's"


async def test_a_call_that_would_change_nothing_is_never_said_to_have_happened(behind: Behind, files: Path) -> None:
    before = tree(files)
    async with behind.serve() as agent:
        same = {"path": str(files / "old"), "content": "one\r\ntwo\r\n"}
        ended = await lose(agent, behind, "after", "fs_write_file", same)
    assert (ended["state"], ended["steps"][0]["state"]) == ("compensated", "failed")
    assert tree(files) == before


async def test_edits_that_the_server_fits_in_leniently_are_left_to_a_person(behind: Behind, files: Path) -> None:
    behind.saga = "probe_for_s = 0.1\n"
    edits = [{"oldText": "   one", "newText": "1"}]
    async with behind.serve() as agent:
        ended = await lose(agent, behind, "after", "fs_edit_file", {"path": str(files / "old"), "edits": edits})
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert (files / "old").read_text() == "1\ntwo\n"


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_where_everything_died_the_next_server_finds_out(behind: Behind, files: Path, moment: str) -> None:
    before = tree(files)
    closed = behind.folder / "closed"
    serving: list[psutil.Process] = []
    lost = ""
    with contextlib.suppress(Exception):  # what the SDK's client makes of a server that is gone
        async with behind.serve() as agent:
            await agent.begin()
            behind.kill(moment, "write_file")
            closed.touch()
            await agent.try_to("fs_write_file", path=str(files / "old"), content="new")
            serving += [each for each in psutil.Process().children() if str(behind.config) in each.cmdline()]
            lost = agent.saga
            serving[0].send_signal(signal.SIGKILL)
    assert len(serving) == 1
    closed.unlink()
    async with behind.serve() as agent:
        agent.saga = lost
        standing = await agent.settled()
        assert standing["steps"][0]["state"] == ("failed" if moment == "before" else "succeeded"), standing
        ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert tree(files) == before
