"""The templates in examples/clients, filled in and started as each client starts its servers."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.examples.outside import BOUND_S, COMMAND, EXAMPLES

CLIENTS = EXAMPLES / "clients"
README = (CLIENTS / "README.md").read_text(encoding="utf-8")
VARIABLE = re.compile(r"\$\{([^{}]+)\}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project with the travel desk in it; its path has a space."""
    folder = tmp_path / "my project"
    folder.mkdir()
    for name in ("saga.toml", "travel.py"):
        shutil.copy(EXAMPLES / "travel" / name, folder)
    return folder


def filled_in(template: str, project: Path) -> str:
    """A template with its placeholders replaced, as its README says."""
    assert "{{command}}" in template
    text = template.replace("{{command}}", str(COMMAND)).replace("{{config}}", str(project / "saga.toml"))
    assert "{{" not in text
    return text


def entry(template: str, key: str, project: Path) -> dict[str, Any]:
    """The one server of a template."""
    parsed = json.loads(filled_in((CLIENTS / template).read_text(encoding="utf-8"), project))
    servers: dict[str, dict[str, Any]] = parsed[key]
    [server] = servers.values()
    assert set(server) <= {"type", "command", "args", "env"}
    assert server.get("type", "stdio") == "stdio"
    return server


def expanded(server: dict[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """Replace the variables that a client knows; there may be no others."""

    def value(text: str) -> str:
        return VARIABLE.sub(lambda found: known[found[1]], text)

    env: dict[str, str] = server.get("env", {})
    return {
        "command": value(server["command"]),
        "args": [value(each) for each in server["args"]],
        "env": {name: value(each) for name, each in env.items()},
    }


async def tools_of(server: Mapping[str, Any], *, cwd: Path, home: Path) -> set[str]:
    """Start an entry with nothing from this test's environment that a client would not have."""
    env = {"PATH": os.defpath, "HOME": str(home), "XDG_DATA_HOME": str(home), **server.get("env", {})}
    assert Path(server["command"]).is_absolute()
    parameters = StdioServerParameters(command=server["command"], args=server["args"], cwd=cwd, env=env)
    with anyio.fail_after(BOUND_S):
        async with Client(parameters) as client:
            return {tool.name for tool in (await client.list_tools()).tools}


async def test_claude_desktop_starts_it_in_a_folder_of_its_own(project: Path, tmp_path: Path) -> None:
    server = entry("claude_desktop_config.json", "mcpServers", project)
    assert VARIABLE.search(json.dumps(server)) is None
    assert "book_flight" in await tools_of(server, cwd=Path("/"), home=tmp_path)


@pytest.mark.parametrize("scope", ["project", "elsewhere"])
async def test_claude_code_starts_its_file(scope: str, project: Path, tmp_path: Path) -> None:
    server = entry(".mcp.json", "mcpServers", project)
    [variable] = VARIABLE.findall(server["command"])
    name, _, default = variable.partition(":-")
    assert name == "SAGA_MCP"
    cwd = project if scope == "project" else tmp_path
    assert "book_flight" in await tools_of(expanded(server, {variable: default}), cwd=cwd, home=tmp_path)


async def test_claude_code_is_given_a_command_that_starts(project: Path, tmp_path: Path) -> None:
    [line] = re.findall(r"^claude mcp add .*$", README, re.MULTILINE)
    quoted = line.replace("{{command}}", shlex.quote("{{command}}")).replace("{{config}}", shlex.quote("{{config}}"))
    options, _, command = filled_in(quoted, project).partition(" -- ")
    assert shlex.split(options) == ["claude", "mcp", "add", "--scope", "project", "travel"]
    program, *arguments = shlex.split(command)
    assert "book_flight" in await tools_of({"command": program, "args": arguments}, cwd=project, home=tmp_path)


async def test_cursor_starts_it_with_the_config_of_the_workspace(project: Path, tmp_path: Path) -> None:
    server = expanded(entry(".cursor/mcp.json", "mcpServers", project), {"workspaceFolder": str(project)})
    assert "book_flight" in await tools_of(server, cwd=tmp_path, home=tmp_path)


async def test_vs_code_starts_it_with_the_config_of_the_workspace(project: Path, tmp_path: Path) -> None:
    parsed = json.loads((CLIENTS / ".vscode" / "mcp.json").read_text(encoding="utf-8"))
    assert set(parsed) == {"inputs", "servers"}
    asked = {f"input:{each['id']}": "secret" for each in parsed["inputs"] if each["password"]}
    server = expanded(entry(".vscode/mcp.json", "servers", project), {"workspaceFolder": str(project), **asked})
    assert server["env"] == {"BANK_TOKEN": "secret"}
    assert "book_flight" in await tools_of(server, cwd=tmp_path, home=tmp_path)


def test_the_template_at_the_root_is_the_one_for_claude_desktop() -> None:
    root = EXAMPLES.parent / "claude_config.example.json"
    assert json.loads(root.read_text()) == json.loads((CLIENTS / "claude_desktop_config.json").read_text())
