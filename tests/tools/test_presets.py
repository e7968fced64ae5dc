"""The shipped presets as data: whole, consistent in themselves, and in the syntax of saga.toml.

That they fit the real servers is shown by running those, in tests/servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.tools.binding import compile_condition, compile_template
from saga_mcp.tools.presets import RUN, SCHEMA, Preset, load_preset, preset_names, within
from saga_mcp.tools.presets.pinning import pinned

VARIABLES = frozenset({"args", "result", "known", "text", "content", "capture", "after", "now", "step", "item", "read"})


@pytest.fixture(params=preset_names())
def preset(request: pytest.FixtureRequest) -> Preset:
    name: str = request.param
    return load_preset(name)


def tools_named(value: JsonValue) -> Iterator[str]:
    """Every tool that a part of a table calls."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "tool":
                yield str(item)
            elif key not in {"args", "force"}:
                yield from tools_named(item)
    elif isinstance(value, list):
        for item in value:
            yield from tools_named(item)


def test_the_servers_that_the_project_names_first_have_presets() -> None:
    assert {"filesystem", "memory", "git", "sqlite"} <= set(preset_names())


def test_a_preset_says_what_it_was_checked_against(preset: Preset) -> None:
    assert preset.evidence in {RUN, SCHEMA}
    assert preset.title
    assert preset.package
    assert preset.checked
    assert preset.server
    assert preset.versions.startswith(">=")


def test_a_preset_calls_only_tools_that_it_knows(preset: Preset) -> None:
    own = {*preset.tools, *preset.read_only}
    assert set(tools_named({**preset.tools})) <= own
    assert not {*preset.tools} & {*preset.read_only}


def test_every_expression_of_a_preset_compiles(preset: Preset) -> None:
    compile_template({**preset.tools, "upstream": preset.upstream}, variables=VARIABLES)


def test_a_preset_says_of_every_tool_that_writes_what_undoes_it_or_that_nothing_does(preset: Preset) -> None:
    for name, table in preset.tools.items():
        cases = table.get("cases")
        tables = [each for each in cases if isinstance(each, dict)] if isinstance(cases, list) else [table]
        for each in tables:
            assert "undo" in each or each.get("kind") in {"pivot", "read_only", "retriable"}, name


def conditions(value: JsonValue, *names: str) -> Iterator[str]:
    """Every condition of these names that a part of a table has."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in names and isinstance(item, str):
                yield item
            yield from conditions(item, *names)
    elif isinstance(value, list):
        for item in value:
            yield from conditions(item, *names)


def test_no_preset_takes_words_of_what_is_there_for_an_error(preset: Preset) -> None:
    for condition in conditions({**preset.tools}, "absent_when", "done_when"):
        searched = compile_condition(condition, variables=VARIABLES).searched
        assert not {("now",), ("now", "text")} & {*searched}, condition


def test_no_guard_of_a_preset_looks_for_words_in_what_is_there(preset: Preset) -> None:
    for condition in conditions({**preset.tools}, "as_left", "as_before"):
        assert not re.search(r"now\.text\.(contains|startsWith|endsWith|matches)\(r?['\"]", condition), condition


def test_names_are_those_of_the_upstream_wherever_a_tool_is_called() -> None:
    table = load_preset("filesystem").tables_for("notes")["notes.write_file"]
    assert set(tools_named(table)) == {"notes.read_text_file", "notes.write_file", "notes.move_file"}


def test_a_tool_is_renamed_only_where_it_is_called() -> None:
    table: JsonObject = {"undo": {"tool": "put", "args": {"tool": "hammer"}}, "force": {"tool": "saw"}}
    preset = Preset(
        name="x", title="X", package="x", checked="1", server="x", versions=">=1", evidence=RUN, upstream={},
        tools={"get": table},
    )  # fmt: skip
    assert preset.tables_for("up") == {
        "up.get": {"undo": {"tool": "up.put", "args": {"tool": "hammer"}}, "force": {"tool": "saw"}}
    }


@pytest.mark.parametrize("version", ["0.6.3", "0.6.12", "v0.6.4", "0.6.3-beta.1"])
def test_a_version_is_in_a_range_by_its_numbers(version: str) -> None:
    assert within(version, ">=0.6.3, <0.7")


@pytest.mark.parametrize("version", ["0.6", "0.7.0", "1", "", "latest"])
def test_a_version_outside_of_a_range_or_without_numbers_does_not_fit(version: str) -> None:
    assert not within(version, ">=0.6.3, <0.7")


def test_a_server_of_another_name_or_version_is_told() -> None:
    memory = load_preset("memory")
    assert memory.misfit("memory-server", "0.6.3") == ""
    assert "memory-server" in memory.misfit("other", "0.6.3")
    assert "0.7.1" in memory.misfit("memory-server", "0.7.1")


def test_the_page_names_every_preset_with_what_it_was_checked_against(preset: Preset) -> None:
    page = (Path(__file__).parents[2] / "docs" / "presets.md").read_text(encoding="utf-8")
    evidence = "run" if preset.evidence == RUN else "schema"
    assert f"| `{preset.name}` | `{preset.package}` {preset.checked} | {evidence} |" in page


def test_a_table_that_is_like_an_earlier_one_says_what_that_says_but_for_its_own_keys() -> None:
    tables = load_preset("excel").tools
    assert tables["rename_sheet"] == tables["set_workbook_settings"]
    assert "like" not in {key for name in preset_names() for table in load_preset(name).tools.values() for key in table}


MEMORY = "@modelcontextprotocol/server-memory"


@pytest.mark.parametrize(
    ("name", "command", "word"),
    [
        ("memory", f"npx -y {MEMORY}", f"{MEMORY}@2026.8.31"),
        ("memory", f"cmd /c C:\\node\\npx.cmd -y {MEMORY}@latest /data", f"{MEMORY}@2026.8.31"),
        ("memory", f"npx -y {MEMORY}@>=2025.1.1", f"{MEMORY}@2026.8.31"),
        ("memory", f"npx -y {MEMORY}@2025.4.25", ""),
        ("memory", f"npx -y {MEMORY}@^2026.1.0", ""),
        ("memory", f"node /opt/{MEMORY}/dist/index.js", ""),
        ("memory", "https://example.test/mcp", ""),
        ("git", "uvx mcp-server-git --repository /repo", "mcp-server-git==2026.10.19"),
        ("git", "uvx mcp-server-git@latest", "mcp-server-git==2026.10.19"),
        ("git", "uvx --from mcp-server-git[all] mcp-server-git", "mcp-server-git[all]==2026.10.19"),
        ("git", "uvx mcp-server-git==2026.10.19", ""),
        ("git", "mcp-server-git --repository /repo", ""),
        ("github", "docker run -i --rm ghcr.io/github/github-mcp-server", "ghcr.io/github/github-mcp-server:v1.9.0"),
        ("github", "docker run -i --rm ghcr.io/github/github-mcp-server:v1.9.1", ""),
        ("github", "docker run -i --rm ghcr.io/github/github-mcp-server@sha256:e854", ""),
    ],
)
def test_a_command_that_starts_whatever_is_the_newest_is_told_from_one_that_names_a_version(
    name: str, command: str, word: str
) -> None:
    assert pinned(load_preset(name), command.split()) == word
