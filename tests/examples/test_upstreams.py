"""The example over two real servers and a Python tool, served as its page says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.clients.installed import NODE, node_modules, with_node
from tests.servers.behind import Agent, graph, tree

EXAMPLE = Path(__file__).parents[2] / "examples" / "upstreams" / "saga.toml"
SERVERS = Path(__file__).parents[1] / "servers"
COMMAND = Path(sys.executable).with_name("saga-mcp")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NPX = """#!/bin/sh
# What `npx -y PACKAGE@VERSION ARGUMENT...` starts, of the packages that are installed already.
shift
package=${1%@*}
shift
exec "$NODE" "$SERVERS/node_modules/$package/dist/index.js" "$@"
"""


def environ(folder: Path) -> dict[str, str]:
    """An environment in which `npx` needs no registry: the tests install from a lock."""
    world, bin_folder = folder / "world", folder / "bin"
    world.mkdir()
    bin_folder.mkdir()
    (bin_folder / "npx").write_text(NPX.replace("$NODE", str(NODE)).replace("$SERVERS", str(node_modules(SERVERS))))
    (bin_folder / "npx").chmod(0o755)
    env = with_node({**os.environ, "UPSTREAMS_WORLD": str(world), "XDG_DATA_HOME": str(folder)})
    return {**env, "PATH": os.pathsep.join([str(bin_folder), env["PATH"]])}


def aside(world: Path) -> str:
    """What the undo has moved aside; the server cannot delete."""
    (moved,) = world.glob("agenda.txt.undone-*")
    assert moved.read_text() == "1. Tea\n"
    return moved.name


async def test_a_room_that_is_not_there_undoes_the_agenda_and_the_note(tmp_path: Path) -> None:
    env = environ(tmp_path)
    world = Path(env["UPSTREAMS_WORLD"])
    server = StdioServerParameters(command=str(COMMAND), args=["serve", "--config", str(EXAMPLE)], env=env)
    ada: dict[str, Any] = {"name": "Ada", "entityType": "person", "observations": ["comes on 2027-03-12"]}
    with anyio.fail_after(120):
        async with Client(server) as client:
            agent = Agent(client)
            await agent.until_listed(3)
            await agent.begin()
            await agent.do("fs_write_file", path=str(world / "agenda.txt"), content="1. Tea\n")
            await agent.do("memory_create_entities", entities=[ada])
            await agent.do("book_room", room="Oak", day="2027-03-12")
            assert (world / "agenda.txt").exists()
            assert "Ada" in "".join(graph(world / "memory.json"))
            assert (world / "bookings" / "2027-03-12-Oak").exists()
            reply = await agent.try_to("book_room", room="Ash", day="2027-03-12")
            ended = await agent.abort()
    assert reply.is_error
    assert ended["state"] == "compensated", ended
    assert not (world / "agenda.txt").exists()
    assert tree(world, without="memory.json").keys() == {"bookings", aside(world)}
    assert graph(world / "memory.json") == set()


async def test_its_config_passes_the_check(tmp_path: Path) -> None:
    env = environ(tmp_path)
    with anyio.fail_after(120):
        done = await anyio.run_process(
            [str(COMMAND), "check", "--json", "--config", str(EXAMPLE)], env=env, check=False
        )
    checked = cast("dict[str, Any]", json.loads(done.stdout))
    assert (done.returncode, checked["errors"], checked["warnings"]) == (0, [], [])
