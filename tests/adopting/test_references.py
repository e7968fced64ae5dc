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
    *(
        {"command": "x", "env": {name: "S3CRET"}}
        for name in ("SMTP_PASS", "DB_PASS", "TOK", "SALT", "LICENSE", "X", "Y_1")
    ),
    *({"command": "x", "env": {name: "S3CRET"}} for name in ("MYSQL_PWD", "PASSPHRASE", "IMAP_USER_PASS", "MODE")),
    {"command": "x", "env": {"TELEGRAM_BOT": "123456789:AAHdqTcvCH1vGWJxfS3CRETs0K5PALDsaw"}},
    {"command": "x", "env": {"X": "https://hooks.slack.com/services/T00/B00/S3CRET"}},
    {"command": "x", "env": {"GH": "github_pat_S3CRET"}},
    {"command": "x", "env": {"X": "xoxb-1-S3CRET"}},
    {"command": "x", "env": {"X": "https://S3CRET@sentry.io/1"}},
    {"command": "x", "env": {"X": "/a/sk-S3CRET"}},
    {"command": "x", "env": {"X": "correct horse S3CRET"}},
    {"command": "python3", "args": ["slow.py", "-p", "S3CRET"]},
    {"command": "python3", "args": ["slow.py", "-pS3CRET"]},
    {"command": "npx", "args": ["-y", "@scope/server", "S3CRET"]},
    {"command": "npx -y server --token S3CRET"},
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


@pytest.mark.parametrize("name", ["MY_PIN", "CARD-PIN", "OTP", "VERIFY_CODE"])
def test_a_number_is_harmless_only_under_a_harmless_name(name: str) -> None:
    reached = References().reachable("srv", Entry("srv", {"command": "x", "env": {name: "4711", "PORT": "4711"}}), None)
    assert reached.keys["env"] == {name: f"${{env:{name}}}", "PORT": "4711"}
    assert reached.copied == ("PORT",)


PLAIN: list[list[str]] = [
    ["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "/srv/data", "C:\\data"],
    ["npx", "-y", "mcp-remote", "https://mcp.example.com/v1/mcp", "--transport", "http"],
    ["uvx", "mcp-server-git", "--repository", "/srv/repo"],
    ["uvx", "--from", "mcp-server-sqlite==2025.4.25", "mcp-server-sqlite", "--db-path=./data/a.db"],
    ["docker", "run", "-i", "--rm", "-e", "GITHUB_TOKEN", "ghcr.io/github/github-mcp-server:v0.4"],
    ["python3", "-m", "mcp_server.main", "--port", "8080", "--log-level=debug", "server.py"],
    ["/usr/local/bin/node", "dist/index.js", "--host", "localhost:3000"],
]


@pytest.mark.parametrize("words", PLAIN, ids=lambda words: words[0])
def test_what_most_servers_are_started_with_stays_readable(words: list[str]) -> None:
    written: dict[str, Any] = {"command": words[0], "args": words[1:]}
    reached = References().reachable("srv", Entry("srv", written), None)
    assert (reached.keys, reached.referred) == (written, {})


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
    assert reached.copied == ("MEMORY_FILE_PATH", "LOG_LEVEL")


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
