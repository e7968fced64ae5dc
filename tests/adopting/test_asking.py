"""Servers that take their time cost one limit together, and whoever waits is told for what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.adopting.desk import SLACK, Desk

from saga_mcp.cli import asking

MANY = 12
HANGS: dict[str, Any] = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_no_server_waits_for_others(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ASKED_WITHIN_S", 45.0)
    desk.write(**{f"s{number}": desk.server(f"s{number}", {"look": None}, together=MANY) for number in range(MANY)})
    answer = desk.adopt("--dry-run", "--json")
    assert answer.code == 0, answer.out
    assert [server["adopted"] for server in answer.json["servers"]] == [True] * MANY


@pytest.mark.slow
@pytest.mark.parametrize("command", ["adopt", "check"])
def test_who_waits_is_told_for_what(desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    desk.write(chat=desk.server("Slack MCP Server", SLACK))
    assert desk.adopt("--yes").code == 0
    hangs = f'[upstreams.hangs]\ncommand = {HANGS["command"]!r}\nargs = {HANGS["args"]}\nread_only = ["look"]\n'
    desk.config.write_text(f"{desk.config.read_text()}\n{hangs}")
    monkeypatch.setattr(asking, "ASKED_WITHIN_S", 12.0)
    monkeypatch.setattr(asking, "TOLD_EVERY_S", 5.0)
    if command == "adopt":
        assert desk.adopt("--revert", "--yes").code == 0
        desk.write(chat=desk.server("Slack MCP Server", SLACK), hangs=HANGS)
        answer = desk.adopt("--yes")
        assert (answer.code, list(desk.servers)) == (0, ["saga", "hangs"]), answer.err
    else:
        answer = desk.run("check", "--config", str(desk.config))
        assert answer.code == 1, answer.out
    assert {"chat: 8 tools", "hangs: did not come up"} <= {*answer.err.splitlines()}
    assert "still waiting for hangs; 12 s are the limit" in answer.err.splitlines()
    assert "hangs" in answer.out
    assert "no answer within 12 s" in answer.out
