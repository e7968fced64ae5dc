"""`saga-mcp adopt` where there is a saga.toml: it says what it said and more, and going back leaves it as it was."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.adopting.desk import SLACK, Desk

from saga_mcp.cli.adopting.client_file import Entry
from saga_mcp.cli.adopting.existing import find_addition, reached_alike, with_addition

TOKEN = "xoxb-0123456789"  # noqa: S105 - it opens nothing
MINE = """# mine, in my own manner
[saga]
name="ops"
database = 'sqlite:///saga.db'

[python.crm]
path = "crm.py"
functions = [ "create_lead", "delete_lead" ]

[tools."crm.create_lead"]
undo = { tool = "crm.delete_lead", args = { id = "${result}" } }
"""
CRM = """
print("loaded")

def create_lead(name: str) -> str:
    return name

def delete_lead(id: str) -> None:
    pass
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "crm.py").write_text(CRM)
    slack = desk.server("Slack MCP Server", SLACK)
    shop = desk.server("shop", {"list_orders": True, "place_order": None})
    desk.write(chat={**slack, "env": {"SLACK_BOT_TOKEN": TOKEN}}, shop=shop)
    return desk


def upstreams(desk: Desk) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads(desk.config.read_text())["upstreams"]
    return content


@pytest.mark.parametrize("mine", [MINE, MINE.rstrip("\n"), MINE.replace("\n", "\r\n"), ""])
def test_a_config_gets_the_servers_at_its_end_and_loses_nothing(desk: Desk, mine: str) -> None:
    desk.config.write_bytes(mine.encode())
    client = desk.file.read_bytes()
    answer = desk.adopt("--yes", "--json")
    assert answer.code == 0, answer.out + answer.err
    assert answer.json["config_was_there"] is True
    assert desk.config.read_bytes().startswith(mine.encode())
    assert list(upstreams(desk)) == ["chat", "shop"]
    assert list(desk.servers) == ["saga"]
    checked = desk.run("check", "--json", "--config", str(desk.config), env={"SLACK_BOT_TOKEN": TOKEN})
    assert (checked.code, checked.json["errors"]) == (0, [])
    assert {"chat.slack_post_message"} <= {tool["tool"] for tool in checked.json["tools"]}

    back = desk.adopt("--revert", "--yes", "--json")
    assert (back.code, back.json["taken_out_of"]) == (0, str(desk.config))
    assert desk.config.read_bytes() == mine.encode()
    assert desk.file.read_bytes() == client


def test_names_and_variables_that_are_in_use_stay_whose_they_were(desk: Desk) -> None:
    other = '[upstreams.chat]\ncommand = "other"\nenv = { TOKEN = "${env:SLACK_BOT_TOKEN}" }\nread_only = ["look"]\n'
    shop = '[python.shop]\npath = "crm.py"\nfunctions = ["delete_lead"]\n[tools."shop.delete_lead"]\nkind = "pivot"\n'
    desk.config.write_text(f"{MINE}{other}{shop}")
    answer = desk.run("adopt", str(desk.file), "--yes", env={"SLACK_BOT_TOKEN": "another"})
    assert answer.code == 0, answer.err
    written = upstreams(desk)
    assert list(written) == ["chat", "chat-2", "shop-2"]
    assert written["chat"]["env"] == {"TOKEN": "${env:SLACK_BOT_TOKEN}"}
    assert written["chat-2"]["env"] == {"SLACK_BOT_TOKEN": "${env:CHAT_2_SLACK_BOT_TOKEN}"}
    assert desk.servers["saga"]["env"] == {"CHAT_2_SLACK_BOT_TOKEN": TOKEN}


def test_after_going_back_the_same_servers_are_adopted_again_as_the_config_has_them(desk: Desk) -> None:
    assert desk.adopt("--yes").code == 0
    desk.config.write_text(f'{desk.config.read_text()}\n[tools."shop.place_order"]\nkind = "pivot"\n')
    mine, adopted = desk.config.read_bytes(), desk.file.read_bytes()
    assert desk.adopt("--revert", "--yes").code == 0
    answer = desk.adopt("--yes")
    assert answer.code == 0, answer.err
    assert "saga.toml has it already" in answer.out
    assert (desk.config.read_bytes(), desk.file.read_bytes()) == (mine, adopted)
    assert "stay as they are" in desk.adopt("--revert", "--yes").out
    assert desk.config.read_bytes() == mine


def test_what_a_person_has_worked_on_since_is_not_taken_out(desk: Desk) -> None:
    desk.config.write_text(MINE)
    assert desk.adopt("--yes").code == 0
    worked_on = desk.config.read_text() + '\n[tools."shop.place_order"]\nkind = "pivot"\n'
    desk.config.write_text(worked_on)
    answer = desk.adopt("--revert", "--yes")
    assert (answer.code, "was changed since" in answer.out) == (0, True)
    assert desk.config.read_text() == worked_on
    assert list(desk.servers) == ["chat", "shop"]


def test_what_a_person_has_changed_above_it_survives_going_back(desk: Desk) -> None:
    desk.config.write_text(MINE)
    assert desk.adopt("--yes").code == 0
    desk.config.write_text(desk.config.read_text().replace("# mine", "# mine still"))
    assert desk.adopt("--revert", "--yes").code == 0
    assert desk.config.read_text() == MINE.replace("# mine", "# mine still")


@pytest.mark.slow
def test_what_open_sagas_may_need_stays(desk: Desk) -> None:
    desk.config.write_text(MINE)
    assert desk.adopt("--yes").code == 0
    added = desk.config.read_text()
    desk.call_once("create_lead", name="Ada")
    answer = desk.adopt("--revert", "--yes")
    assert (answer.code, "1 open saga" in answer.out) == (0, True)
    assert desk.config.read_text() == added
    assert list(desk.servers) == ["chat", "shop"]


@pytest.mark.parametrize(
    ("name", "there", "said"),
    [
        ("saga.toml", "mine", "cannot be added to"),
        ("saga.toml", 'upstreams = { a = { command = "a", read_only = ["b"] } }', "Mend that first"),
        ("saga.toml", '[saga]\nname = "${env:NOBODY_SETS_THIS}"\nidle = 1', "unknown key"),
        ("saga.toml", '[upstreams.a]\ncommand = "${env:NOBODY_SETS_THIS}"\nread_only = ["b"]', "NOBODY_SETS_THIS"),
        ("saga.json", "{}", "only to TOML can be added"),
    ],
)
def test_a_config_that_cannot_be_added_to_is_refused_with_what_to_do(
    desk: Desk, name: str, there: str, said: str
) -> None:
    config = desk.folder / name
    config.write_text(there)
    before = desk.file.read_bytes()
    answer = desk.adopt("--yes", "--config", str(config))
    assert (answer.code, said in answer.err, "--config" in answer.err) == (1, True, True)
    assert answer.err.rstrip().endswith("Nothing was changed.")
    assert (config.read_text(), desk.file.read_bytes()) == (there, before)
    assert not (desk.folder / ".mcp.json.before-saga-mcp").exists()


def test_a_dry_run_shows_what_would_be_added_and_adds_nothing(desk: Desk) -> None:
    desk.config.write_text(MINE)
    answer = desk.adopt("--dry-run")
    assert answer.code == 0
    assert "[upstreams.chat]" in answer.out
    assert "[saga]" not in answer.out
    assert desk.config.read_text() == MINE
    assert desk.adopt("--yes").code == 0
    added = desk.config.read_bytes()
    assert "Would take what was added out of" in desk.adopt("--revert", "--dry-run").out
    assert desk.config.read_bytes() == added


@pytest.mark.parametrize("mine", [b"", b"a = 1", b"a = 1\n", b"a = 1\r\n\r\n"])
def test_each_addition_is_taken_out_by_itself(mine: bytes) -> None:
    first = with_addition(mine, "one", "[a]\n")
    both = with_addition(first, "two (b)", "[b]\nc = 1\n")
    assert both.startswith(first)
    found = find_addition(both, "two (b)")
    assert found is not None
    assert (found.without, found.is_as_written) == (first, True)
    found = find_addition(both, "one")
    assert found is not None
    assert (found.without, found.is_as_written) == (with_addition(mine, "two (b)", "[b]\nc = 1\n"), True)
    assert find_addition(both, "three") is None


def test_the_clients_entry_that_runs_is_the_one_that_was_written(desk: Desk) -> None:
    desk.config.write_text(MINE)
    assert desk.adopt("--yes").code == 0
    entry = json.loads(desk.file.read_text())["mcpServers"]["saga"]
    assert entry["args"][-2:] == ["--config", str(desk.config)]
    assert entry["env"] == {"SLACK_BOT_TOKEN": TOKEN}


def test_a_server_that_is_reached_by_url_is_not_added_twice(tmp_path: Path) -> None:
    written = {"url": "https://mcp.example/mcp"}
    assert reached_alike({**written}, Entry("x", {**written}), str(tmp_path)) == {}
