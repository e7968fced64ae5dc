"""README.md, taken at its word: its files are served, its commands exist, its template starts."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
COMMAND = Path(sys.executable).with_name("saga-mcp")
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
FILE_NAME = re.compile(r"# (\w+\.\w+)\n")


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """The files that README.md shows, each named by its first line."""
    for _, _, text in BLOCK.findall(README):
        if named := FILE_NAME.match(text):
            (tmp_path / named[1]).write_text(text, encoding="utf-8")
    config = tmp_path / "saga.toml"
    text = config.read_text(encoding="utf-8")
    assert text.count("[saga]\n") == 1
    config.write_text(text.replace("[saga]\n", '[saga]\ndatabase = "sqlite:///saga.db"\n'), encoding="utf-8")
    return tmp_path


@asynccontextmanager
async def served(command: str, *args: str, cwd: Path, env: dict[str, str] | None = None) -> AsyncGenerator[Client]:
    with anyio.fail_after(30):
        async with Client(StdioServerParameters(command=command, args=[*args], cwd=cwd, env=env)) as client:
            yield client


def effects(office: Path) -> list[str]:
    """What the tools have left in the world, by kind."""
    return sorted(path.suffix for path in office.iterdir() if path.suffix in {".txt", ".lead"})


def saga(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    assert meta is not None
    facts: dict[str, Any] = meta["saga"]
    return facts


def test_the_config_is_right_as_it_stands(office: Path) -> None:
    checked = subprocess.run([COMMAND, "check"], cwd=office, capture_output=True, text=True, timeout=30, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 errors, 1 warning" in checked.stdout


async def test_both_pairs_do_and_undo(office: Path) -> None:
    async with served(str(COMMAND), "serve", cwd=office) as client:
        offered = {tool.name for tool in (await client.list_tools()).tools}
        assert {"write_note", "create_lead"} <= offered
        assert not {"delete_note", "delete_lead"} & offered

        opened = await client.call_tool("saga_begin", {"purpose": "README"})
        saga_id = saga(opened.meta)["id"]
        note = {"title": "Lisbon", "text": "By train?", "saga_id": saga_id}
        lead = {"name": "Ada", "saga_id": saga_id}
        assert not (await client.call_tool("write_note", note)).is_error
        assert not (await client.call_tool("create_lead", lead)).is_error
        assert effects(office) == [".lead", ".txt"]

        await client.call_tool("saga_abort", {"saga_id": saga_id})
        assert effects(office) == []


async def test_a_failed_step_undoes_the_others(office: Path) -> None:
    async with served(str(COMMAND), "serve", cwd=office) as client:
        first = await client.call_tool("write_note", {"title": "Lisbon", "text": "By train?"})
        failed = await client.call_tool("create_lead", {"name": "", "saga_id": saga(first.meta)["id"]})
        assert failed.is_error
        assert effects(office) == []


def test_the_table_of_commands_is_complete() -> None:
    shown = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, timeout=30, check=True).stdout
    _, _, listed = shown.partition("Commands:")
    assert "..." not in listed, "what a command does is cut off"
    commands = re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE)
    assert len(commands) > 5
    _, _, section = README.partition("## The command\n")
    rows = [line.split("|")[1] for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(?:saga-mcp )?([a-z]+)`", row)]
    assert sorted(named) == sorted(commands)


@pytest.mark.parametrize("text", [(PROJECT / "claude_config.example.json").read_text(encoding="utf-8"), README])
async def test_the_entry_for_claude_desktop_starts(text: str, tmp_path: Path) -> None:
    shown = text if text.startswith("{") else next(body for _, kind, body in BLOCK.findall(text) if kind == "json")
    [entry] = json.loads(shown)["mcpServers"].values()
    assert entry.keys() == {"command", "args"}
    assert entry["command"] in {"{{command}}", "/absolute/path/to/saga-mcp/.venv/bin/saga-mcp"}
    *args, config = entry["args"]
    assert config in {"{{config}}", "/absolute/path/to/saga-mcp/examples/travel/saga.toml"}
    example = PROJECT / "examples" / "travel" / "saga.toml"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TRAVEL_WORLD": str(tmp_path / "world.db")}
    async with served(str(COMMAND), *args, str(example), cwd=Path("/"), env=env) as client:
        assert "book_flight" in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_the_demo_finds_everything_as_claimed() -> None:
    demo = PROJECT / "examples" / "travel" / "demo.py"
    told = subprocess.run([sys.executable, demo], capture_output=True, text=True, timeout=140, check=False, cwd="/")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "Everything is as claimed." in told.stdout
    assert "\x1b" not in told.stdout
