"""`saga-mcp adopt`: the servers of a client stand behind saga-mcp afterwards, or nothing has changed."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.adopting.desk import SLACK, Desk

from saga_mcp.tools.upstream.declared import offered_name

TOKEN = "xoxb-0123456789"  # noqa: S105 - it opens nothing


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    slack = desk.server("Slack MCP Server", SLACK)
    desk.write(
        chat={**slack, "env": {"SLACK_BOT_TOKEN": TOKEN}},
        shop=desk.server("shop", {"list_orders": True, "get_price": None, "place_order": None}),
        broken=desk.server("broken", {}, say="no DATABASE_URL", exit=3),
        old={"url": "http://127.0.0.1:1/sse"},
    )
    return desk


def test_a_dry_run_shows_everything_and_writes_nothing(desk: Desk) -> None:
    before = desk.file.read_bytes()
    answer = desk.adopt("--dry-run")
    assert answer.code == 0, answer.err
    assert sorted(path.name for path in desk.folder.iterdir()) == [".mcp.json", "stub.log"]
    assert desk.file.read_bytes() == before
    assert "point of no return: slack_post_message, slack_reply_to_thread" in answer.out
    assert "person/left: slack_add_reaction" in answer.out
    assert "nothing of it would be offered" in answer.out
    assert "no DATABASE_URL" in answer.out
    assert "the old SSE transport" in answer.out
    assert TOKEN not in answer.out + answer.err


def test_servers_are_asked_and_no_tool_is_called(desk: Desk) -> None:
    assert desk.adopt("--dry-run").code == 0
    assert sorted(desk.log) == ["started", "started", f"started {TOKEN}"]


@pytest.mark.slow
def test_what_was_adopted_is_served_as_the_table_said(desk: Desk) -> None:
    answer = desk.adopt("--yes", "--json")
    assert answer.code == 0, answer.err
    told = {server["server"]: server for server in answer.json["servers"]}
    assert {name: server["adopted"] for name, server in told.items()} == {
        "chat": True,
        "shop": True,
        "broken": False,
        "old": False,
    }
    offered = {tool["offered_as"] for server in told.values() for tool in server.get("tools", ()) if tool["offered_as"]}
    assert offered == {f"chat_{tool}" for tool in SLACK}
    assert list(desk.servers) == ["saga", "broken", "old"]

    async def listed() -> set[str]:
        entry = desk.servers["saga"]
        env = {**entry["env"], **desk.environ}
        server = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
        with anyio.fail_after(50):
            async with Client(server) as client:
                while True:
                    tools = await client.list_tools(cache_mode="bypass")
                    names = {tool.name for tool in tools.tools}
                    if any(name.startswith("chat_") for name in names):
                        return names
                    await anyio.sleep(0.05)

    assert {name for name in anyio.run(listed) if not name.startswith("saga_")} == offered


def test_no_secret_gets_into_the_config(desk: Desk) -> None:
    assert desk.adopt("--yes").code == 0
    text = desk.config.read_text()
    assert TOKEN not in text
    assert tomllib.loads(text)["upstreams"]["chat"]["env"] == {"SLACK_BOT_TOKEN": "${env:SLACK_BOT_TOKEN}"}
    assert desk.servers["saga"]["env"] == {"SLACK_BOT_TOKEN": TOKEN}


def test_nothing_is_guessed_into_the_config(desk: Desk) -> None:
    """What nobody has said of a tool stands only in comments, and is never an undo."""
    assert desk.adopt("--yes").code == 0
    written = tomllib.loads(desk.config.read_text())
    assert "tools" not in written
    assert "read_only" not in written["upstreams"]["shop"]
    assert '# read_only = ["list_orders"]' in desk.config.read_text()
    comments = [line[2:] for line in desk.config.read_text().splitlines() if line.startswith("# [") or " = " in line]
    assert not any("undo" in line for line in comments)


def test_a_servers_own_word_counts_only_for_who_says_so(desk: Desk) -> None:
    assert desk.adopt("--yes", "--trust-hints").code == 0
    assert tomllib.loads(desk.config.read_text())["upstreams"]["shop"]["read_only"] == ["list_orders"]


def test_the_config_that_is_written_passes_the_check(desk: Desk) -> None:
    assert desk.adopt("--yes").code == 0
    checked = desk.run("check", "--json", "--config", str(desk.config), env={"SLACK_BOT_TOKEN": TOKEN})
    assert (checked.code, checked.json["errors"]) == (0, [])


def test_servers_whose_names_look_alike_to_agents_get_prefixes_of_their_own(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    alike = {name: desk.server("shop", {"list_orders": True}) for name in ("a_b", "a b", "a.b", "A B")}
    desk.write(**alike)
    before = desk.file.read_bytes()
    answer = desk.adopt("--yes", "--trust-hints")
    assert answer.code == 0, answer.err
    names = {offered_name(name, "x") for name in tomllib.loads(desk.config.read_text())["upstreams"]}
    assert len(names) == 4
    assert desk.adopt("--revert", "--yes").code == 0
    assert desk.file.read_bytes() == before


def test_going_back_leaves_the_clients_file_as_it_was(desk: Desk) -> None:
    before = desk.file.read_bytes()
    desk.file.chmod(0o640)
    assert desk.adopt("--yes").code == 0
    assert stat.S_IMODE(desk.file.stat().st_mode) == 0o640
    answer = desk.adopt("--revert", "--yes")
    assert answer.code == 0, answer.err
    assert "Put back chat, shop in" in answer.out
    assert desk.file.read_bytes() == before
    assert sorted(path.name for path in desk.folder.iterdir()) == [".mcp.json", "saga.toml", "stub.log"]


def test_a_server_can_be_left_where_it_is(desk: Desk) -> None:
    assert desk.adopt("--yes", "--skip", "shop").code == 0
    assert list(desk.servers) == ["saga", "shop", "broken", "old"]
    answer = desk.adopt("--dry-run", "--skip", "shpo")
    assert (answer.code, "no server shpo" in answer.err) == (2, True)


def test_who_cannot_be_asked_has_to_say_yes(desk: Desk) -> None:
    before = desk.file.read_bytes()
    answer = desk.adopt()
    assert answer.code == 2
    assert "--yes" in answer.err
    assert desk.file.read_bytes() == before
    assert desk.log == []


def test_adopting_twice_is_refused(desk: Desk) -> None:
    assert desk.adopt("--yes").code == 0
    before = desk.file.read_bytes()
    answer = desk.adopt("--yes")
    assert (answer.code, "--revert" in answer.err) == (1, True)
    assert desk.file.read_bytes() == before


@pytest.mark.parametrize("there", ["saga.toml", ".mcp.json.before-saga-mcp"])
def test_nothing_that_is_there_is_overwritten(desk: Desk, there: str) -> None:
    (desk.folder / there).write_text("mine")
    before = desk.file.read_bytes()
    answer = desk.adopt("--yes")
    assert (answer.code, "already there" in answer.err) == (1, True)
    assert (desk.folder / there).read_text() == "mine"
    assert desk.file.read_bytes() == before


@pytest.mark.parametrize("content", ["{", "{}", '{"mcpServers": {"x": {}}}'])
def test_a_file_that_is_of_no_use_changes_nothing(desk: Desk, content: str) -> None:
    desk.file.write_text(content)
    answer = desk.adopt("--yes", "--json")
    assert answer.code in {1, 2}
    assert answer.json["error"]["message"].endswith("Nothing was changed.")
    assert [path.name for path in desk.folder.iterdir()] == [".mcp.json"]
    assert desk.file.read_text() == content


def test_going_back_without_a_backup_changes_nothing(desk: Desk) -> None:
    assert desk.adopt("--yes").code == 0
    (desk.folder / ".mcp.json.before-saga-mcp").unlink()
    before = desk.file.read_bytes()
    answer = desk.adopt("--revert", "--yes")
    assert (answer.code, "Nothing was changed" in answer.err) == (1, True)
    assert desk.file.read_bytes() == before


def test_permission_rules_that_name_old_tools_are_listed(desk: Desk) -> None:
    (desk.folder / ".claude").mkdir()
    rules = {"permissions": {"allow": ["mcp__chat__slack_get_users", "mcp__shop__place_order", "Bash(ls)"]}}
    (desk.folder / ".claude" / "settings.json").write_text(json.dumps(rules))
    answer = desk.adopt("--dry-run")
    assert "mcp__chat__slack_get_users -> mcp__saga__chat_slack_get_users" in answer.out
    assert "place_order ->" not in answer.out


@pytest.mark.parametrize("version", ["", "@2025.4.25"])
def test_an_unpinned_command_stays_as_it_is_and_how_to_pin_it_is_said(tmp_path: Path, version: str) -> None:
    desk = Desk(tmp_path)
    stub = desk.server("Slack MCP Server", SLACK)
    npx = tmp_path / "npx"
    npx.write_text(f"#!/bin/sh\nexec '{stub['command']}' '{stub['args'][0]}' '{stub['args'][1]}'\n")
    npx.chmod(0o755)
    package = "@modelcontextprotocol/server-slack"
    desk.write(chat={"command": str(npx), "args": ["-y", f"{package}{version}"]})
    answer = desk.adopt("--yes")
    assert answer.code == 0, answer.err
    text = desk.config.read_text()
    assert tomllib.loads(text)["upstreams"]["chat"]["args"] == ["-y", f"{package}{version}"]
    for said in (answer.out.replace("\n  ", " "), text.replace("\n# ", " ")):
        assert (f"the preset was checked with {package} 2025.4.25" in said.lower()) is (not version)
        assert (f'write "{package}@2025.4.25" in place of the package' in said) is (not version)
