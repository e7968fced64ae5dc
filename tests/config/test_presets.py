"""A preset is as if its tables stood in the file; what the file says itself goes before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from saga_mcp.config import ConfigInvalid, LoadedConfig, load_config
from saga_mcp.domain.values import Kind, PartAction
from saga_mcp.tools.upstream.declared import DeclaredUpstreamTool

BLOCK = '[upstreams.notes]\ncommand = "notes"\npreset = "filesystem"\n'


def loaded(folder: Path, text: str) -> LoadedConfig:
    file = folder / "saga.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, {})


def tools(config: LoadedConfig) -> dict[str, DeclaredUpstreamTool]:
    (upstream,) = config.upstreams
    return {tool.tool: tool for tool in upstream.tools}


def problems(folder: Path, text: str) -> dict[str, str]:
    with pytest.raises(ConfigInvalid) as raised:
        loaded(folder, text)
    return {problem.key: problem.message for problem in raised.value.problems}


def test_a_presets_pairs_are_those_of_the_upstream(tmp_path: Path) -> None:
    found = tools(loaded(tmp_path, BLOCK))
    write = found["write_file"].pair
    assert write.capture is not None
    assert write.capture.call.tool == "notes.read_text_file"
    assert [entry.tool for entry in write.undo] == ["notes.write_file", "notes.move_file"]
    assert found["read_text_file"].pair.kind is Kind.READ_ONLY


def test_a_table_that_says_nothing_of_the_undo_is_laid_over_the_presets(tmp_path: Path) -> None:
    write = tools(loaded(tmp_path, f'{BLOCK}[tools."notes.write_file"]\ntimeout_s = 5\n'))["write_file"].pair
    assert write.timeout_s == 5
    assert write.capture is not None
    assert len(write.undo) == 2


def test_a_table_that_says_what_a_tool_is_replaces_the_whole_pair(tmp_path: Path) -> None:
    write = tools(loaded(tmp_path, f'{BLOCK}[tools."notes.write_file"]\nkind = "pivot"\n'))["write_file"].pair
    assert (write.kind, write.undo, write.capture, write.guard) == (Kind.PIVOT, (), None, None)
    assert write.not_restored == ""


def test_a_table_with_an_undo_of_its_own_keeps_nothing_of_the_presets(tmp_path: Path) -> None:
    own = '[tools."notes.write_file"]\nundo = { leave = "a file" }\n'
    write = tools(loaded(tmp_path, BLOCK + own))["write_file"].pair
    assert [entry.action for entry in write.undo] == [PartAction.LEAVE]
    assert write.capture is None


def test_what_the_upstream_says_itself_goes_before_the_preset(tmp_path: Path) -> None:
    (upstream,) = loaded(tmp_path, '[upstreams.db]\ncommand = "db"\npreset = "sqlite"\nfailed_when = false\n').upstreams
    assert upstream.rules.failed_when is False


def test_tools_that_only_read_are_added_to_those_of_the_preset(tmp_path: Path) -> None:
    found = tools(loaded(tmp_path, f'{BLOCK}read_only = ["count_words"]\n'))
    assert found["count_words"].pair.kind is found["list_directory"].pair.kind is Kind.READ_ONLY


def test_a_read_of_the_preset_can_be_something_else_here(tmp_path: Path) -> None:
    found = tools(loaded(tmp_path, f'{BLOCK}[tools."notes.search_files"]\nkind = "pivot"\n'))
    assert found["search_files"].pair.kind is Kind.PIVOT


def test_an_unknown_preset_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    told = problems(tmp_path, '[upstreams.fs]\ncommand = "fs"\npreset = "filesistem"\n')
    assert told == {"upstreams.fs.preset": "there is no preset filesistem; did you mean filesystem?"}


def test_what_is_wrong_with_a_preset_is_told_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from saga_mcp.tools import presets  # noqa: PLC0415 - patched here

    broken = presets.Preset(
        name="broken", title="B", package="b", checked="1", server="b", versions=">=1", evidence=presets.RUN,
        upstream={}, tools={"make": {"undo": {"tool": "unmake", "args": {"id": "${resutl.id}"}}}},
    )  # fmt: skip

    def load(_name: str) -> presets.Preset:
        return broken

    monkeypatch.setattr(presets, "load_preset", load)
    told = problems(tmp_path, '[upstreams.b]\ncommand = "b"\npreset = "broken"\n')
    assert list(told) == ['tools."b.make".undo.args.id']
    assert told['tools."b.make".undo.args.id'].startswith("in the preset broken: ")
