"""No secret of a client's file gets into saga.toml: it is referred to, and stays in the client's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from saga_mcp.cli.adopting.client_file import Entry
from saga_mcp.cli.adopting.references import References

SECRETS: list[dict[str, Any]] = [
    {"command": "x", "env": {"GITHUB_TOKEN": "S3CRET"}},
    {"command": "x", "env": {"DATABASE_URL": "S3CRET"}},
    {"command": "x", "env": {"MODE": "sk-S3CRET-abcdefgh"}},
    {"command": "x", "env": {"MODE": "a1S3CRETa1b2c3d4e5f6g7h8i9"}},
    {"command": "x", "args": ["--api-key", "S3CRET"]},
    {"command": "x", "args": ["--api-key=S3CRET"]},
    {"command": "docker", "args": ["run", "-e", "SLACK_BOT_TOKEN=S3CRET", "image"]},
    {"command": "x", "args": ["postgresql://me:S3CRET@db/app"]},
    {"command": "npx", "args": ["mcp-remote", "https://mcp.example/?api_key=S3CRET"]},
    {"command": "npx", "args": ["mcp-remote", "https://mcp.example", "--header", "Authorization: Bearer S3CRET"]},
    {"url": "https://me:S3CRET@mcp.example/mcp"},
    {"url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer S3CRET"}},
    {"url": "https://mcp.example/mcp", "headers": {"X-Api-Key": "S3CRET"}},
]


@pytest.mark.parametrize("written", SECRETS, ids=lambda written: str(sorted(written)))
def test_a_secret_is_only_referred_to(written: dict[str, Any]) -> None:
    reached = References().reachable("srv", Entry("srv", written), None)
    assert "S3CRET" not in json.dumps(reached.keys)
    assert "S3CRET" not in repr(reached)
    assert any("S3CRET" in value for value in reached.referred.values())
    assert all(f"${{env:{name}}}" in json.dumps(reached.keys) for name in reached.referred)


def test_what_is_no_secret_can_be_read_in_saga_toml(tmp_path: Path) -> None:
    written: dict[str, Any] = {
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-memory@2026.8.31", "--verbose", "/data/notes"],
        "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.json"), "LOG_LEVEL": "debug"},
        "cwd": "/srv",
    }
    reached = References().reachable("srv", Entry("srv", written), None)
    assert reached.keys == written
    assert reached.referred == {}


def test_what_the_client_fills_in_stays_with_the_client() -> None:
    written: dict[str, Any] = {
        "command": "${userHome}/bin/server",
        "args": ["${workspaceFolder}/data"],
        "env": {"TOKEN": "${input:token}", "LEVEL": "${LEVEL:-info}"},
    }
    reached = References().reachable("fs-1", Entry("fs-1", written), None)
    assert reached.keys == {
        "command": "${env:FS_1_COMMAND}",
        "args": ["${env:FS_1_ARG_1}"],
        "env": {"TOKEN": "${env:TOKEN}", "LEVEL": "${env:LEVEL}"},
    }
    assert reached.referred == {
        "FS_1_COMMAND": "${userHome}/bin/server",
        "FS_1_ARG_1": "${workspaceFolder}/data",
        "TOKEN": "${input:token}",
        "LEVEL": "${LEVEL:-info}",
    }


def test_two_servers_with_a_secret_of_one_name_keep_their_own() -> None:
    references = References()
    first = references.reachable("work", Entry("work", {"command": "x", "env": {"TOKEN": "one"}}), None)
    second = references.reachable("home", Entry("home", {"command": "x", "env": {"TOKEN": "two"}}), None)
    third = references.reachable("also", Entry("also", {"command": "x", "env": {"TOKEN": "one"}}), None)
    assert first.referred == third.referred == {"TOKEN": "one"}
    assert second.referred == {"HOME_TOKEN": "two"}
    assert second.keys["env"] == {"TOKEN": "${env:HOME_TOKEN}"}


def test_where_a_server_runs_is_said_only_if_it_must_be() -> None:
    entry = Entry("fs", {"command": "x"})
    assert References().reachable("fs", entry, Path("/project")).keys == {"command": "x", "cwd": "/project"}
    assert References().reachable("fs", entry, None).keys == {"command": "x"}
