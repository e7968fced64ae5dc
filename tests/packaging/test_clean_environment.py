"""The wheel in an environment of its own, started where foreign files are called like its imports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.edge.raw_stdio_client import started
from tests.packaging.conftest import Installed, run
from tests.packaging.hostile import BEFORE_MAIN, OURS, PYTHON_S, THEIRS, Hostile, lay_traps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(250)]

NOTE = {"title": "milk", "text": "two litres"}


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return lay_traps(tmp_path / "hostile", (*OURS, *THEIRS, *PYTHON_S))


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment as clients give it: next to nothing, and a home where the log goes."""
    return {"PATH": os.defpath, "HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "home" / "data")}


class Way:
    """A command line, where it is started, and in what environment."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.command = command
        self.cwd = cwd
        self.env = env

    def run(self, *arguments: str) -> str:
        return run(*self.command, *arguments, cwd=self.cwd, env={"PYTHONPATH": "", **self.env})

    def init(self) -> list[str]:
        """Write the starter project into the working directory; how a client starts it."""
        written: dict[str, Any] = json.loads(self.run("init", "--python", "--json"))
        [entry] = written["client_config"]["mcpServers"].values()
        return [entry["command"], *entry["args"]]


WAYS = {
    "the working directory": (["{command}"], None),
    "the working directory, as a module": (["{python}", "-m", "saga_mcp"], None),
    "PYTHONPATH": (["{command}"], "{hostile}"),
    "PYTHONPATH, as a module": (["{python}", "-m", "saga_mcp"], "{hostile}"),
    "an empty entry of PYTHONPATH, which is the working directory": (["{command}"], ":/nowhere"),
}


@pytest.fixture(params=WAYS.values(), ids=[*WAYS])
def way(request: pytest.FixtureRequest, installed: Installed, hostile: Hostile, home: dict[str, str]) -> Way:
    command, path = request.param
    words = {"command": installed.command, "python": installed.python, "hostile": hostile.folder}
    env = home if path is None else {**home, "PYTHONPATH": path.format(**words)}
    return Way([part.format(**words) for part in command], hostile.folder, env)


def test_commands_import_nothing_foreign(way: Way, hostile: Hostile) -> None:
    assert way.run("--version").startswith("saga-mcp 0.")
    assert "undone" in way.run("demo")
    assert hostile.sprung == []


async def test_what_init_writes_is_served_to_the_sdk_s_client(way: Way, hostile: Hostile) -> None:
    command, *arguments = way.init()
    server = StdioServerParameters(command=command, args=arguments, cwd=way.cwd, env=way.env)
    note = way.cwd / "notes" / "milk.txt"
    with anyio.fail_after(60):
        async with Client(server) as client:
            reply = await client.call_tool("add_note", NOTE)
            assert not reply.is_error, reply
            assert note.exists()
            assert reply.meta is not None
            await client.call_tool("saga_abort", {"saga_id": reply.meta["saga"]["id"]})
            assert not note.exists()
    assert hostile.sprung == []


async def test_on_stdout_is_nothing_but_the_protocol(way: Way, hostile: Hostile) -> None:
    await serve_a_note([*way.command, *way.init()[-3:]], way.cwd, way.env)
    assert hostile.sprung == []


async def test_isolated_python_hears_of_no_pythonpath_at_all(
    installed: Installed, tmp_path: Path, home: dict[str, str]
) -> None:
    """What no program can defend itself against, such as a `sitecustomize`, `python -I` keeps out."""
    hostile = lay_traps(tmp_path / "worse", (*OURS, *THEIRS, *PYTHON_S, *BEFORE_MAIN))
    env = {**home, "PYTHONPATH": str(hostile.folder)}
    way = Way([str(installed.python), "-I", "-m", "saga_mcp"], hostile.folder, env)
    await serve_a_note([*way.command, *way.init()[-3:]], way.cwd, way.env)
    assert hostile.sprung == []


def test_tools_are_still_found_on_pythonpath(installed: Installed, tmp_path: Path, home: dict[str, str]) -> None:
    (tmp_path / "lib").mkdir()
    registry = "from saga_tools import ToolRegistry\nregistry = ToolRegistry()\n"
    tool = '@registry.tool(kind="read_only")\ndef look() -> int:\n    """Look."""\n    return 1\n'
    (tmp_path / "lib" / "acme_tools.py").write_text(registry + tool)
    (tmp_path / "saga.toml").write_text('[saga]\nname = "acme"\n[python.acme]\nmodule = "acme_tools:registry"\n')
    checked = run(installed.command, "check", cwd=tmp_path, env={**home, "PYTHONPATH": str(tmp_path / "lib")})
    assert "acme.look" in checked


async def serve_a_note(command: list[str], cwd: Path, env: dict[str, str]) -> None:
    """Serve, write a note and end; each line of stdout has to be a message."""
    async with started(command, cwd=cwd, env=env) as client:
        assert (await client.initialize())["id"] == "init"
        assert "error" not in await client.call("add_note", "note", **NOTE)
        await client.stdin.aclose()
        left, _ = await client.exits(30)
        assert left == []
