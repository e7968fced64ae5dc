"""Files with comments and trailing commas, as VS Code keeps them: read as they are meant, and never written without."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adopting.desk import SLACK, Desk

from saga_mcp.cli.adopting.commented import has_comments, plain

TOKEN = "xoxb-0123456789"  # noqa: S105 - it opens nothing
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\/*,]}{ \n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\/*,'), inner, max_size=3),
)


@given(JSON)
def test_plain_json_is_what_it_is(value: object) -> None:
    text = json.dumps(value, indent=1)
    assert plain(text) == text
    assert not has_comments(text)


@given(JSON, st.text("a\"\\/,]}{'"))
def test_comments_and_trailing_commas_say_nothing(value: object, said: str) -> None:
    """A newline of `indent` stands between two tokens, never in one."""
    lines = json.dumps(value, indent=1).splitlines()
    text = f"// {said}\n" + "".join(f"{line} /* {said} */ // {said}\r\n" for line in lines)
    assert has_comments(text)
    assert json.loads(plain(text)) == value
    assert [len(line) for line in plain(text).splitlines()] == [len(line) for line in text.splitlines()]
    assert json.loads(plain("[" + json.dumps(value) + ", \n]")) == [value]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def written(desk: Desk, comment: str) -> bytes:
    """A file with one server; its trailing commas are in the manner of VS Code."""
    server = {**desk.server("Slack MCP Server", SLACK), "env": {"SLACK_BOT_TOKEN": TOKEN}}
    desk.file.write_text(f'{{\n  "mcpServers": {{ {comment}\n    "chat": {json.dumps(server)},\n  }},\n}}\n')
    return desk.file.read_bytes()


def test_trailing_commas_are_in_nobodys_way(desk: Desk) -> None:
    before = written(desk, "")
    assert desk.adopt("--yes").code == 0
    assert list(desk.servers) == ["saga"]
    assert desk.adopt("--revert", "--yes").code == 0
    assert desk.file.read_bytes() == before


def test_where_there_are_comments_a_person_is_told_what_to_change(desk: Desk) -> None:
    before = written(desk, "// of the team")
    dry = desk.adopt("--dry-run")
    assert (dry.code, desk.config.exists(), desk.file.read_bytes() == before) == (0, False, True)
    answer = desk.adopt("--yes")
    assert answer.code == 0, answer.err
    for said in (dry.out, answer.out):
        assert "In mcpServers, in the place of chat:" in said
        assert '"SLACK_BOT_TOKEN": "<chat.env.SLACK_BOT_TOKEN>"' in said
        assert TOKEN not in said
    assert desk.file.read_bytes() == before
    assert list(tomllib.loads(desk.config.read_text())["upstreams"]) == ["chat"]
    assert sorted(path.name for path in desk.folder.iterdir()) == [".mcp.json", "saga.toml", "stub.log"]

    again = desk.adopt("--yes", "--json")
    assert (again.code, again.json["backup"], again.json["by_hand"]["take_out"]) == (0, None, ["chat"])
    changed = json.dumps(again.json["by_hand"]["put_in"]["saga"]).replace("<chat.env.SLACK_BOT_TOKEN>", TOKEN)
    desk.file.write_text(f'{{"mcpServers": {{ // of the team\n "saga": {changed} }} }}')
    adopted = desk.file.read_bytes()
    back = desk.adopt("--revert", "--yes")
    assert (back.code, "in the place of saga: your servers" in back.err) == (1, True)
    assert desk.file.read_bytes() == adopted


def test_what_was_put_in_by_hand_is_served(desk: Desk) -> None:
    written(desk, "/* of the team */")
    entry = desk.adopt("--yes", "--json").json["by_hand"]["put_in"]["saga"]
    desk.write(saga={**entry, "env": {"SLACK_BOT_TOKEN": TOKEN}})
    checked = desk.run("check", "--config", entry["args"][-1], env=desk.servers["saga"]["env"])
    assert checked.code == 0, checked.out


def test_comments_that_were_written_since_are_not_lost_in_going_back(desk: Desk) -> None:
    written(desk, "")
    assert desk.adopt("--yes").code == 0
    adopted = desk.file.read_text() + "// mine"
    desk.file.write_text(adopted)
    back = desk.adopt("--revert", "--yes")
    assert (back.code, "as they stand in" in back.err) == (1, True)
    assert desk.file.read_text() == adopted
    assert Path(f"{desk.file}.before-saga-mcp").exists()
