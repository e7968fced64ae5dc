"""`saga-mcp adopt` over real servers: what a client started by itself is undoable afterwards."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.adopting.desk import Desk
from tests.servers.behind import Agent, graph, node_server, tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def entry(command: list[str], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"command": command[0], "args": command[1:], **more}


async def test_two_servers_of_a_project_are_adopted_used_undone_and_put_back(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    files, memory = tmp_path / "files", tmp_path / "memory.json"
    files.mkdir()
    (files / "plan").write_text("old")
    filesystem = [*node_server("@modelcontextprotocol/server-filesystem"), str(files)]
    remembering = node_server("@modelcontextprotocol/server-memory")
    desk.write(notes=entry(filesystem), brain=entry(remembering, env={"MEMORY_FILE_PATH": str(memory)}))
    original, before = desk.file.read_bytes(), tree(files)

    adopted = await anyio.to_thread.run_sync(desk.adopt, "--yes", "--json")
    assert adopted.code == 0, adopted.out + adopted.err
    told = {server["server"]: server for server in adopted.json["servers"]}
    assert {name: (server["preset"], server["misfit"]) for name, server in told.items()} == {
        "notes": ("filesystem", None),
        "brain": ("memory", None),
    }
    undoable = {tool["tool"] for server in told.values() for tool in server["tools"] if tool["becomes"] == "undoable"}
    assert {"write_file", "move_file", "create_entities", "delete_relations"} <= undoable

    saga = desk.servers["saga"]
    server = StdioServerParameters(
        command=saga["command"], args=saga["args"], env={**os.environ, **desk.environ, **saga.get("env", {})}
    )
    ada: dict[str, Any] = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
    with anyio.fail_after(120):
        async with Client(server) as client:
            agent = Agent(client)
            await agent.until_listed(2)
            await agent.begin()
            await agent.do("notes_write_file", path=str(files / "plan"), content="new")
            await agent.do("brain_create_entities", entities=[ada])
            assert (tree(files), graph(memory)) != (before, set())
            ended = await agent.abort()
    assert ended["state"] == "compensated", ended
    assert (tree(files), graph(memory)) == (before, set())

    back = await anyio.to_thread.run_sync(desk.adopt, "--revert", "--yes", "--json")
    assert back.json["put_back"] == ["notes", "brain"]
    assert desk.file.read_bytes() == original
    assert json.loads(original)["mcpServers"].keys() == desk.servers.keys()
