"""`saga-mcp check` asks the upstreams: what the config takes them for is compared with what they list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adopting.desk import SLACK, Answer, Desk

TAKES_ID: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def config(desk: Desk, server: dict[str, Any], more: str = "") -> None:
    lines = [f"{key} = {json.dumps(value)}" for key, value in server.items()]
    desk.config.write_text("\n".join(['[saga]\nname = "x"', "[upstreams.up]", *lines, more]))


def check(desk: Desk, *arguments: str) -> Answer:
    return desk.run("check", "--json", "--config", str(desk.config), *arguments)


def test_a_preset_that_was_made_for_another_version_says_so(desk: Desk) -> None:
    config(desk, {**desk.server("Slack MCP Server", SLACK, version="2.1.0"), "preset": "slack-archived"})
    answer = check(desk)
    assert answer.code == 0
    (warning,) = answer.json["warnings"]
    assert warning["key"] == "upstreams.up.preset"
    assert "2.1.0" in warning["message"]


def test_a_preset_that_fits_says_nothing(desk: Desk) -> None:
    config(desk, {**desk.server("Slack MCP Server", SLACK), "preset": "slack-archived"})
    answer = check(desk)
    assert (answer.code, answer.json["warnings"], answer.json["errors"]) == (0, [], [])


def test_a_secret_argument_that_the_tool_does_not_take_is_an_error(desk: Desk) -> None:
    config(desk, desk.server("shop", {"send": TAKES_ID}), '[tools."up.send"]\nkind = "pivot"\nsecret = ["idd"]\n')
    (error,) = check(desk).json["errors"]
    assert error["key"] == 'tools."up.send".secret'
    assert error["message"] == "up.send has no argument idd; did you mean id?"


def test_what_an_undo_cannot_restore_stands_beside_it(desk: Desk) -> None:
    config(desk, {**desk.server("Slack MCP Server", SLACK), "preset": "slack-archived"})
    tools = {tool["tool"]: tool for tool in check(desk).json["tools"]}
    assert "cannot remove one" in tools["up.slack_add_reaction"]["not_restored"]


def test_the_tools_that_ask_a_person_are_shown_as_a_table_and_for_programs(desk: Desk) -> None:
    tables = """
[tools."up.send"]
kind = "pivot"
approval = true

[tools."up.pay"]
undo = { leave = "it stays" }
approval = "${args.id != 'test'}"

[tools."up.note"]
undo = { leave = "it stays" }
"""
    config(desk, desk.server("shop", {"send": TAKES_ID, "pay": TAKES_ID, "note": TAKES_ID}), tables)
    tools = {tool["tool"]: tool["approval"] for tool in check(desk).json["tools"]}
    assert tools == {"up.send": "always", "up.pay": "where ${args.id != 'test'}", "up.note": None}
    lines = desk.run("check", "--config", str(desk.config)).out.splitlines()
    (head,) = [line for line in lines if line.startswith("TOOL")]
    at = head.index("APPROVAL")
    shown = {line.split()[0]: line[at : head.index("UNDO")].strip() for line in lines if line.startswith("up.")}
    assert (shown["up.send"], shown["up.note"]) == ("always", "-")
    assert shown["up.pay"].startswith("where ${args.id")  # a narrow table goes on in the next line


def test_calls_that_do_not_fit_the_servers_schema_are_errors(desk: Desk) -> None:
    server = desk.server("shop", {"make": TAKES_ID, "unmake": TAKES_ID, "send": None})
    undo = '[tools."up.make"]\nundo = { tool = "up.unmake", args = { idd = "${args.id}" }, safe_if_absent = true }\n'
    config(desk, server, undo + '[tools."up.snd"]\nkind = "pivot"\n')
    answer = check(desk)
    assert answer.code == 2
    assert [(each["key"], each["message"]) for each in answer.json["errors"]] == [
        ('tools."up.make".undo.args.idd', "up.unmake has no argument idd; did you mean id?"),
        ('tools."up.make".undo.args', "up.unmake needs id"),
        ('tools."up.snd"', "up has no tool snd; did you mean send?"),
    ]


def test_tools_that_nobody_declared_are_listed(desk: Desk) -> None:
    config(desk, {**desk.server("shop", {"list": True, "look": True, "send": None}), "read_only": ["look"]})
    messages = [each["message"] for each in check(desk).json["warnings"]]
    assert messages == [
        'not offered: list. The server says that they only read: read_only = ["list"]',
        "not offered: send. Say in [tools] what undoes it, or that it is a pivot",
    ]


def test_an_upstream_that_does_not_come_up_is_told_with_what_it_said_and_the_others_are_looked_at(desk: Desk) -> None:
    config(desk, {**desk.server("shop", {"look": True, "send": None}), "read_only": ["look"]})
    dead = {**desk.server("dead", {}, say="no licence", exit=4), "read_only": ["x"]}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in dead.items())
    desk.config.write_text(f"{desk.config.read_text()}\n[upstreams.dead]\n{lines}\n")
    answer = check(desk)
    (error,) = answer.json["errors"]
    assert (answer.code, answer.json["did_not_come_up"]) == (1, ["dead"])
    assert (error["key"], error["message"]) == (
        "upstreams.dead",
        "did not come up: MCPError: Connection closed: no licence",
    )
    assert [each["message"][:17] for each in answer.json["warnings"]] == ["not offered: send"]
    assert sorted(answer.err.splitlines()) == ["asking 2 upstreams: up, dead", "dead: did not come up", "up: 2 tools"]


def test_offline_nothing_is_started(desk: Desk) -> None:
    config(desk, {**desk.server("shop", {}), "read_only": ["look"]})
    assert check(desk, "--offline").code == 0
    assert desk.log == []


def test_what_only_the_preset_says_reads_is_no_mistake_of_the_person(desk: Desk) -> None:
    fewer = {tool: said for tool, said in SLACK.items() if tool != "slack_get_users"}
    server = desk.server("Slack MCP Server", {**fewer, "look": True})
    config(desk, {**server, "preset": "slack-archived", "read_only": ["look", "lok"]})
    answer = check(desk)
    errors = {error["key"]: error["message"] for error in answer.json["errors"]}
    assert errors == {"upstreams.up.read_only[1]": "up has no tool lok; did you mean look?"}


def test_a_preset_of_whose_tools_the_server_has_none_is_an_error(desk: Desk) -> None:
    config(desk, {**desk.server("shop", {"look": True}), "preset": "memory", "read_only": ["look"]})
    answer = check(desk)
    errors = {error["key"]: error["message"] for error in answer.json["errors"]}
    assert (answer.code, errors) == (2, {"upstreams.up.preset": "up has none of the tools of the preset memory"})


@pytest.mark.parametrize(
    ("database", "said"),
    [("no/such/folder.db", "the folder of"), ("folder", "is no file"), ("junk.db", "is damaged"), ("ok.db", "")],
)
def test_a_saga_log_that_cannot_be_used_is_told_where_the_log_is_looked_at(
    desk: Desk, database: str, said: str
) -> None:
    (desk.folder / "folder").mkdir()
    (desk.folder / "junk.db").write_text("no database " * 500)
    config(desk, {**desk.server("shop", {"look": True}), "read_only": ["look"]})
    desk.config.write_text(desk.config.read_text().replace("[saga]", f'[saga]\ndatabase = "sqlite:///{database}"'))
    answer = check(desk)
    errors = [(error["key"], said in error["message"], error["line"]) for error in answer.json["errors"]]
    assert (answer.code, errors) == ((1, [("saga.database", True, 2)]) if said else (0, []))
    doctor = desk.run("doctor", "--json", "--config", str(desk.config))
    assert any(said in each["says"] for each in doctor.json["checks"] if each["level"] == "error") is bool(said)
    assert check(desk, "--offline").code == 0
    assert (desk.folder / "junk.db").read_text().startswith("no database")
    assert not (desk.folder / "ok.db").exists()
