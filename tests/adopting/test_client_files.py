"""The files of the clients that people use: found, read, and changed only where their servers stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from saga_mcp.cli.adopting.client_file import (
    ClientFile,
    ClientFileUnusable,
    Entry,
    default_client_file,
    read_backup,
    read_client_file,
)
from saga_mcp.cli.adopting.restoring import our_entry, restore

FS: dict[str, Any] = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"]}
OURS: dict[str, Any] = {"command": "/bin/saga-mcp", "args": ["serve", "--config", "/x/saga.toml"]}


def without_ours(file: ClientFile) -> bytes:
    ours = our_entry(file)
    assert ours is not None
    return restore(file, ours, read_backup(file), {}, "").content


def written(path: Path, content: object, indent: int | str = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=indent), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("place", "content", "client", "of_a_project"),
    [
        ("Claude/claude_desktop_config.json", {"mcpServers": {"fs": FS}}, "Claude Desktop", False),
        ("p/.mcp.json", {"mcpServers": {"fs": FS}}, "Claude Code", True),
        (".claude.json", {"numStartups": 3, "mcpServers": {"fs": FS}, "projects": {}}, "Claude Code", False),
        ("p/.cursor/mcp.json", {"mcpServers": {"fs": FS}}, "Cursor", True),
        ("p/.vscode/mcp.json", {"inputs": [], "servers": {"fs": {"type": "stdio", **FS}}}, "VS Code", True),
        ("settings.json", {"mcp": {"servers": {"fs": FS}}, "editor.tabSize": 2}, "VS Code", False),
    ],
)
def test_each_clients_file_is_known_by_its_shape(
    tmp_path: Path,
    place: str,
    content: dict[str, Any],
    client: str,
    of_a_project: bool,  # noqa: FBT001 - expected
) -> None:
    file = read_client_file(written(tmp_path / place, content), tmp_path)
    assert (file.client, file.is_of_a_project) == (client, of_a_project)
    assert [entry.name for entry in file.entries] == ["fs"]
    assert file.entries[0].args[-1] == "/data"


def test_a_project_of_claude_code_is_found_among_the_others(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    projects: dict[str, Any] = {
        str(mine): {"mcpServers": {"fs": FS}, "history": []},
        str(other): {"mcpServers": {"git": FS}},
    }
    path = written(tmp_path / ".claude.json", {"projects": projects})
    file = read_client_file(path, mine)
    assert [entry.name for entry in file.entries] == ["fs"]
    assert (file.folder, file.is_of_a_project) == (mine, True)
    changed = json.loads(file.with_ours(["fs"], OURS))
    assert changed["projects"][str(mine)] == {"mcpServers": {"saga": OURS}, "history": []}
    assert changed["projects"][str(other)] == projects[str(other)]


def test_where_only_other_projects_have_servers_they_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / ".claude.json", {"projects": {"/there": {"mcpServers": {"fs": FS}}}})
    with pytest.raises(ClientFileUnusable, match=r"/there.*--project"):
        read_client_file(path, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"no JSON \(.*line 1 column 2.*mend it"),
        ('{"mcpServers": {"a": /* b */ 1 // c\n,, }}', "no JSON .*line 2 column 4"),
        ("", "is empty: set your servers up in the client first"),
        (" \n", "is empty"),
        ('{"mcpServers": {}} // mine', "names no servers"),
        ("[]", "does not hold an object"),
        ("{}", "names no servers"),
        ('{"mcpServers": {}}', "names no servers"),
        ('{"mcpServers": {"fs": "npx"}}', "not every entry"),
        ('{"mcpServers": {"mem": {"command": "a"}, "fs": {}, "mem": {"command": "b"}}}', 'says "mem" more than once'),
        ('{"mcpServers": {"fs": {"command": "a", "env": {"A": "1", "A": "2"}}}}', 'says "A" more than once'),
        ('{"mcpServers": {}, "mcpServers": {"fs": {"command": "a"}}}', 'says "mcpServers" more than once'),
        ('{"mcpServers": {"fs": {"command": "a"}}, "zoom": 1e400}', "no JSON .*1e400.*mend it"),
        ('{"mcpServers": {"fs": {"command": "a"}}, "zoom": NaN}', "no JSON .*NaN.*mend it"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ClientFileUnusable, match=said):
        read_client_file(path, tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClientFileUnusable, match=r"is not there: name the file"):
        read_client_file(tmp_path / "mcp.json", tmp_path)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (OURS, "saga-mcp itself"),
        ({**FS, "disabled": True}, "switched off"),
        ({"url": "https://mcp.example/sse"}, "SSE"),
        ({"type": "sse", "url": "https://mcp.example"}, "SSE"),
        ({"type": "http"}, "neither"),
        ({**FS, "url": "https://mcp.example"}, "a command and a url"),
        ({**FS, "envFile": ".env"}, "envFile"),
        ({**FS, "env": {"PORT": "1"}, "args": [1]}, "not texts"),
        ({**FS, "args": ["a\0b"]}, "no program can be given"),
        ({**FS, "env": {"\ud83d": "1"}}, "no program can be given"),
    ],
)
def test_an_entry_that_saga_toml_cannot_say_stays_where_it_is(entry: dict[str, Any], said: str) -> None:
    assert said in Entry("x", entry).unusable


@pytest.mark.parametrize("entry", [FS, {"type": "http", "url": "https://mcp.example/mcp", "headers": {"A": "b"}}])
def test_other_entries_can_be_adopted(entry: dict[str, Any]) -> None:
    assert Entry("x", entry).unusable == ""


def test_only_the_adopted_servers_change_and_the_file_keeps_its_manner(tmp_path: Path) -> None:
    content = {"theme": "dark", "mcpServers": {"a": FS, "b": FS, "c": FS}, "z": ["ä"]}
    file = read_client_file(written(tmp_path / "mcp.json", content, indent="\t"), tmp_path)
    changed = file.with_ours(["b", "c"], OURS)
    assert changed.startswith(b'{\n\t"theme"')
    assert "ä".encode() in changed
    assert list(json.loads(changed)) == ["theme", "mcpServers", "z"]
    assert list(json.loads(changed)["mcpServers"].items()) == [("a", FS), ("saga", OURS)]


def test_half_a_character_elsewhere_in_the_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"title": "\\ud83d cut", "smile": "\\ud83d\\ude00", "mcpServers": {"a": {"command": "npx"}}}')
    changed = read_client_file(path, tmp_path).with_ours(["a"], OURS)
    assert b'"\\ud83d cut"' in changed
    before, after = json.loads(path.read_bytes()), json.loads(changed)
    assert (after["title"], after["smile"]) == (before["title"], before["smile"])


def test_a_server_of_somebody_that_is_called_saga_is_not_overwritten(tmp_path: Path) -> None:
    file = read_client_file(written(tmp_path / "mcp.json", {"mcpServers": {"saga": FS, "b": FS}}), tmp_path)
    assert json.loads(file.with_ours(["b"], OURS))["mcpServers"] == {"saga": FS, "saga-mcp": OURS}


def test_what_was_added_since_survives_going_back(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", {"mcpServers": {"a": FS, "b": FS}})
    file = read_client_file(path, tmp_path)
    path.with_name("mcp.json.before-saga-mcp").write_bytes(file.raw)
    added = {"command": "uvx", "args": ["mcp-server-time"]}
    written(path, {"mcpServers": {"saga": OURS, "time": added}, "theme": "dark"})
    now = read_client_file(path, tmp_path)
    back = json.loads(without_ours(now))
    assert back == {"mcpServers": {"a": FS, "b": FS, "time": added}, "theme": "dark"}


def test_where_nothing_was_added_the_file_is_the_old_one_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{ "mcpServers" :{"a":' + json.dumps(FS) + "} }\n\n")
    file = read_client_file(path, tmp_path)
    path.with_name("mcp.json.before-saga-mcp").write_bytes(file.raw)
    path.write_bytes(file.with_ours(["a"], OURS))
    now = read_client_file(path, tmp_path)
    assert without_ours(now) == file.raw


def test_claude_desktop_keeps_its_file_where_each_system_wants_it(tmp_path: Path) -> None:
    end = Path("Claude") / "claude_desktop_config.json"
    assert default_client_file({}, tmp_path, "linux") == tmp_path / ".config" / end
    assert default_client_file({"XDG_CONFIG_HOME": "/x"}, tmp_path, "linux") == Path("/x") / end
    assert default_client_file({}, tmp_path, "darwin") == tmp_path / "Library" / "Application Support" / end
    assert default_client_file({"APPDATA": str(tmp_path)}, tmp_path, "win32") == tmp_path / end
    packaged = tmp_path / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming"
    (packaged / "Claude").mkdir(parents=True)
    assert default_client_file({"LOCALAPPDATA": str(tmp_path)}, tmp_path, "win32") == packaged / end
