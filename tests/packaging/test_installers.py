"""docs/install.md with its real tools: uvx, `uv tool install`, `pipx run` and `pipx install`, from a local wheel."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.packaging.conftest import BIN, UV, Built, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

UVX = BIN / "uvx"
PIPX = BIN / "pipx"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Where the tools put what they install: not into the home of whoever runs the tests."""
    return {
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_NO_CONFIG": "1",
        "UV_SYSTEM_CERTS": "1",
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }


def uvx(wheel: Path, constraints: Path) -> list[str]:
    return [str(UVX), "--quiet", "--constraints", str(constraints), "--from", str(wheel), "saga-mcp"]


def pipx_run(wheel: Path, constraints: Path) -> list[str]:
    return [str(PIPX), "run", f"--pip-args=--constraint={constraints}", "--spec", str(wheel), "saga-mcp"]


@pytest.mark.parametrize("start", [uvx, pipx_run])
async def test_a_command_that_installs_and_serves_at_once(
    start: object, built: Built, constraints: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    command = (uvx if start is uvx else pipx_run)(built.wheel, constraints)
    written = json.loads(run(*command, "init", "--python", "--json", "notes", cwd=tmp_path, env=env))
    assert "stands in a cache" in written["warning"]
    await add_a_note([*command, "serve", "--config", "notes/saga.toml"], tmp_path, env)


@pytest.mark.parametrize("tool", ["uv", "pipx"])
async def test_an_installed_command_is_what_init_names(
    tool: str, built: Built, constraints: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    if tool == "uv":
        run(UV, "tool", "install", "--constraints", constraints, built.wheel, cwd=tmp_path, env=env)
    else:
        run(PIPX, "install", f"--pip-args=--constraint={constraints}", built.wheel, cwd=tmp_path, env=env)
    command = tmp_path / "bin" / "saga-mcp"
    written = json.loads(run(command, "init", "--python", "--json", "notes", cwd=tmp_path, env=env))
    assert written["warning"] is None
    [entry] = written["client_config"]["mcpServers"].values()
    assert entry["command"] == str(command)
    await add_a_note([entry["command"], *entry["args"]], Path("/"), env)
    assert (tmp_path / "notes" / "notes" / "milk.txt").exists()


async def add_a_note(command: list[str], cwd: Path, env: dict[str, str]) -> None:
    server = StdioServerParameters(command=command[0], args=command[1:], cwd=cwd, env=env)
    with anyio.fail_after(120):
        async with Client(server) as client:
            reply = await client.call_tool("add_note", {"title": "milk", "text": "two litres"})
            assert not reply.is_error, reply
