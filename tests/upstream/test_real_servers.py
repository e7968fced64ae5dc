"""The reference servers behind saga-mcp: of the older era, in Node, and not written for us."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio.to_thread
import psutil
import pytest
from tests.clients.installed import NODE, PROJECT, node_modules
from tests.upstream.desk import NOTES, Desk, eventually, gone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # installs Node's packages once

SERVERS = PROJECT / "tests" / "servers"
CONFIG = """
[saga]
name = "real"
database = "sqlite:///saga.db"

[python.notes]
path = "notes.py:registry"

[upstreams.fs]
command = "{node}"
args = ["{modules}/@modelcontextprotocol/server-filesystem/dist/index.js", "{folder}/files"]
read_only = ["read_text_file", "list_allowed_directories"]

[upstreams.memory]
command = "{node}"
args = ["{modules}/@modelcontextprotocol/server-memory/dist/index.js"]
env = {{ MEMORY_FILE_PATH = "{folder}/memory.jsonl" }}
read_only = ["read_graph"]

[tools."fs.write_file".undo]
tool = "fs.move_file"
args = {{ source = "${{args.path}}", destination = "${{args.path}}.undone" }}

[tools."memory.create_entities".undo]
tool = "memory.delete_entities"
args = {{ entityNames = "${{result.entities.map(entity, entity.name)}}" }}
idempotent = true
"""


@pytest.fixture
async def real(tmp_path: Path) -> Desk:
    """A desk before the file system's and the memory's server."""
    modules = await anyio.to_thread.run_sync(node_modules, SERVERS)
    (tmp_path / "files").mkdir()
    (tmp_path / "notes.py").write_text(NOTES, encoding="utf-8")
    desk = Desk(tmp_path)
    desk.config.write_text(
        CONFIG.format(node=NODE, modules=modules / "node_modules", folder=tmp_path), encoding="utf-8"
    )
    return desk


def entities(folder: Path) -> list[str]:
    file = folder / "memory.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line)["name"] for line in lines]


async def test_a_saga_over_two_servers_and_a_function_is_undone_last_first(real: Desk) -> None:
    file = real.folder / "files" / "a.txt"
    async with real.serve() as agent:
        await agent.until_up("memory_read_graph")
        await agent.until_up("fs_list_allowed_directories")
        saga_id = await agent.begin()
        wrote = await agent.call("fs_write_file", path=str(file), content="hällo\n", saga_id=saga_id)
        assert not wrote.is_error, wrote.text
        assert file.read_text(encoding="utf-8") == "hällo\n"
        await agent.call("note", text="b", saga_id=saga_id)
        entity: dict[str, object] = {"name": "ACME", "entityType": "customer", "observations": []}
        made = await agent.call("memory_create_entities", entities=[entity], saga_id=saga_id)
        assert made.value["structuredContent"]["entities"] == [entity]
        assert entities(real.folder) == ["ACME"]
        aborted = await agent.call("saga_abort", saga_id=saga_id)
        assert aborted.facts["state"] == "compensated"
        missing = await agent.call("fs_read_text_file", path=str(file))
        assert missing.is_error
    assert not file.exists()
    assert entities(real.folder) == []
    assert real.notes == ["note b", "unnote b"]


async def test_a_server_that_is_killed_comes_back_and_is_undone(real: Desk) -> None:
    file = real.folder / "files" / "a.txt"
    others = psutil.Process().children(recursive=True)  # databases that other tests of this worker share
    async with real.serve() as agent:
        await agent.until_up("fs_list_allowed_directories")
        wrote = await agent.call("fs_write_file", path=str(file), content="x")
        mine = [each for each in psutil.Process().children(recursive=True) if each not in others]
        (killed,) = [each.pid for each in mine if _is_filesystem(each)]
        os.kill(killed, signal.SIGKILL)
        # An undo that meets the dying one may have been done by it: then a person is asked, as this pair has no probe.
        await eventually(
            lambda: any(
                each.pid != killed and _is_filesystem(each) for each in psutil.Process().children(recursive=True)
            )
        )
        await agent.call("saga_abort", saga_id=wrote.facts["id"])
        await agent.until(wrote.facts["id"], "compensated")
    assert not file.exists()
    await eventually(lambda: all(gone(each.pid) for each in mine))


def _is_filesystem(process: psutil.Process) -> bool:
    try:
        return "server-filesystem" in " ".join(process.cmdline())
    except psutil.Error:  # it is gone by now
        return False
