"""Going back: whatever stood in a client's file is in it again, or in a file beside it that is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adopting.desk import SLACK, Answer, Desk

TOKEN = "xoxb-0123456789"  # noqa: S105 - it opens nothing
ROTATED = "xoxb-9876543210"
MINE: dict[str, Any] = {"command": "mine"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Adopted: a server with a key in its env and one in its arguments, and one without."""
    desk = Desk(tmp_path)
    slack = desk.server("Slack MCP Server", SLACK)
    slack = {**slack, "args": [*slack["args"], "--token", TOKEN], "env": {"SLACK_BOT_TOKEN": TOKEN, "LEVEL": "1"}}
    shop = desk.server("shop", {"list_orders": True})
    desk.file.write_text(json.dumps({"theme": "dark", "mcpServers": {"chat": slack, "shop": shop}}))
    assert desk.adopt("--yes").code == 0
    return desk


def change(desk: Desk, **servers: dict[str, Any]) -> None:
    content = json.loads(desk.file.read_text())
    content["mcpServers"] |= servers
    desk.file.write_text(json.dumps(content))


def back(desk: Desk) -> Answer:
    answer = desk.adopt("--revert", "--yes", "--json")
    assert answer.code == 0, answer.out + answer.err
    return answer


def kept_beside(desk: Desk) -> list[Path]:
    return sorted(desk.folder.glob(".mcp.json.*"))


def test_a_server_whose_name_was_taken_since_is_told_and_kept_beside(desk: Desk) -> None:
    change(desk, chat=MINE)
    told = back(desk).json
    assert (told["put_back"], told["not_as_before"]) == (["shop"], ["chat"])
    assert desk.servers["chat"] == MINE
    assert [str(path) for path in kept_beside(desk)] == [told["as_before"]]
    kept = json.loads(Path(told["as_before"]).read_text())
    assert kept["mcpServers"]["chat"]["env"]["SLACK_BOT_TOKEN"] == TOKEN


def test_a_person_reads_what_was_not_put_back_and_where_it_is(desk: Desk) -> None:
    change(desk, chat=MINE)
    would = desk.adopt("--revert", "--dry-run").out
    did = desk.adopt("--revert", "--yes").out
    for said in (would, did):
        assert "put back shop in" in said.lower()
        assert "Not put back, since changed: chat." in said
        assert str(desk.folder / ".mcp.json.before-saga-mcp.1") in said


def test_a_setting_that_was_changed_since_is_kept_in_both_states(desk: Desk) -> None:
    content = json.loads(desk.file.read_text())
    desk.file.write_text(json.dumps({**content, "theme": "light"}))
    told = back(desk).json
    assert told["not_as_before"] == ["theme"]
    assert json.loads(desk.file.read_text())["theme"] == "light"
    assert json.loads(Path(told["as_before"]).read_text())["theme"] == "dark"


def test_what_is_kept_beside_is_in_nobodys_way(desk: Desk) -> None:
    for _ in range(2):
        change(desk, shop=MINE)
        back(desk)
        change(desk, shop=desk.server("shop", {"list_orders": True}))
        assert desk.adopt("--yes").code == 0
    names = [path.name for path in kept_beside(desk)]
    assert names == [f".mcp.json.before-saga-mcp{end}" for end in ("", ".1", ".2")]


def test_a_key_that_was_changed_since_goes_back_into_its_server(desk: Desk) -> None:
    before = desk.servers["saga"]
    change(desk, saga={**before, "env": dict.fromkeys(before["env"], ROTATED)})
    told = back(desk).json
    assert (told["renewed"], told["dropped"]) == (["chat"], [])
    assert desk.servers["chat"]["env"] == {"SLACK_BOT_TOKEN": ROTATED, "LEVEL": "1"}
    assert desk.servers["chat"]["args"][-1] == ROTATED
    assert (told["not_as_before"], TOKEN in Path(told["as_before"]).read_text()) == (["chat"], True)


def test_a_person_reads_where_a_changed_key_went_and_where_the_old_one_is(desk: Desk) -> None:
    before = desk.servers["saga"]
    change(desk, saga={**before, "env": dict.fromkeys(before["env"], ROTATED)})
    said = desk.adopt("--revert", "--yes").out
    assert "chat: with what was changed since in the env of saga-mcp" in said
    assert f"{desk.file}.before-saga-mcp.1 keeps what was there before" in said
    assert "Not put back" not in said
    assert ROTATED not in said


@pytest.mark.parametrize("trouble", ["gone", "edited"])
def test_a_changed_key_of_which_nothing_tells_whose_it_is_is_kept_beside(desk: Desk, trouble: str) -> None:
    before = desk.servers["saga"]
    change(desk, saga={**before, "env": {**before["env"], "SLACK_BOT_TOKEN": ROTATED}})
    if trouble == "gone":
        desk.config.unlink()
    else:
        desk.config.write_text(desk.config.read_text().replace('LEVEL = "1"', 'LEVEL = "2"'))
    told = back(desk).json
    assert "SLACK_BOT_TOKEN in the env of saga" in told["dropped"]
    assert ROTATED in Path(told["as_adopted"]).read_text()
    assert desk.servers["chat"]["env"]["SLACK_BOT_TOKEN"] == TOKEN


def test_what_was_added_to_our_entry_is_kept_beside(desk: Desk) -> None:
    before = desk.servers["saga"]
    change(desk, saga={**before, "env": {**before["env"], "EXTRA": "1"}, "autoApprove": ["chat_x"]})
    Path(f"{desk.file}.with-saga-mcp.1").write_text("somebody's")
    told = back(desk).json
    assert told["dropped"] == ["EXTRA in the env of saga", "autoApprove of saga"]
    kept = json.loads(Path(told["as_adopted"]).read_text())["mcpServers"]["saga"]
    assert (kept["env"]["EXTRA"], kept["autoApprove"]) == ("1", ["chat_x"])
    assert list(desk.servers) == ["chat", "shop"]


def test_another_entry_that_starts_saga_mcp_stays(desk: Desk) -> None:
    mine = {"command": "saga-mcp", "args": ["serve", "--config", "/mine/saga.toml"]}
    change(desk, other=mine)
    back(desk)
    assert list(desk.servers) == ["chat", "shop", "other"]
    assert desk.servers["other"] == mine


def test_where_nothing_was_changed_nothing_is_left_beside(desk: Desk) -> None:
    change(desk, new=MINE)
    told = back(desk).json
    assert (told["not_as_before"], told["dropped"], told["renewed"]) == ([], [], [])
    assert kept_beside(desk) == []
    assert list(desk.servers) == ["chat", "shop", "new"]


def test_what_the_client_writes_while_the_person_is_asked_is_not_overwritten(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(*_: object, **__: object) -> None:
        change(desk, late=MINE)

    monkeypatch.setattr("saga_mcp.cli.adopting.command.ask", answered)
    answer = desk.adopt("--revert", "--yes")
    assert (answer.code, "changed meanwhile" in answer.err) == (1, True)
    assert list(desk.servers) == ["saga", "late"]


def test_who_has_taken_our_entry_out_by_hand_reads_where_the_old_file_is(desk: Desk) -> None:
    desk.write(chat=MINE)
    answer = desk.adopt("--revert", "--yes")
    assert (answer.code, f"before it was adopted is in {desk.file}.before-saga-mcp" in answer.err) == (1, True)
    assert [path.name for path in kept_beside(desk)] == [".mcp.json.before-saga-mcp"]
