"""The presets made from schemas, held against what their servers list, as `saga-mcp check` does with live ones.

Of all presets: each says what its undos leave behind.

The lists are in `listed/`, written by `scripts/record_tools.py`. Presets with the evidence `run` are checked over the
real servers, in tests/servers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.adopting.desk import STUB, Desk

from saga_mcp.cli.adopting.classifying import Becomes, Classified, classify
from saga_mcp.tools.presets import SCHEMA, Preset, load_preset, preset_names
from saga_mcp.tools.upstream.asking import Listed
from saga_mcp.tools.upstream.schema import InputSchema

LISTED = Path(__file__).with_name("listed")
NOTHING_LEFT = {"excel": None, "memory": {"create_relations"}}
"""Presets, or of them the tools, whose undos put everything back: of Excel the whole file."""
PRESETS = [preset for preset in map(load_preset, preset_names()) if preset.evidence == SCHEMA]


@pytest.fixture(params=PRESETS, ids=lambda preset: preset.name)
def preset(request: pytest.FixtureRequest) -> Preset:
    made: Preset = request.param
    return made


def listed_by(preset: Preset) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((LISTED / f"{preset.name}.json").read_text(encoding="utf-8"))
    return content


def test_every_list_belongs_to_a_preset() -> None:
    assert {file.stem for file in LISTED.iterdir()} == {preset.name for preset in PRESETS}


def test_every_call_of_a_preset_fits_what_its_server_lists(preset: Preset, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    spec = {"list": str(LISTED / f"{preset.name}.json"), "log": str(tmp_path / "stub.log")}
    block = [f"command = {json.dumps(sys.executable)}", f"args = {json.dumps([str(STUB), json.dumps(spec)])}"]
    desk.config.write_text("\n".join(['[saga]\nname = "x"', "[upstreams.up]", *block, f'preset = "{preset.name}"\n']))
    checked = desk.run("check", "--json", "--config", str(desk.config))
    assert (checked.json["errors"], checked.json["warnings"]) == ([], [])
    assert checked.code == 0


def judged(preset: Preset, *words: str) -> Classified:
    """What `saga-mcp adopt` makes of the server."""
    server = listed_by(preset)
    tools = tuple(types.Tool.model_validate({"name": name, **said}) for name, said in server["tools"].items())
    return classify(Listed(server["name"], server["version"], tools), words, trust_hints=False)


def test_a_preset_is_found_by_its_server_and_knows_all_of_its_tools(preset: Preset) -> None:
    found = judged(preset, "node", "server.js")
    assert found.preset is not None
    assert (found.preset.name, found.misfit, found.of(Becomes.HIDDEN)) == (preset.name, "", [])
    assert {*preset.tools, *preset.read_only} == {*listed_by(preset)["tools"]}


def test_the_page_says_how_much_of_a_server_is_undoable(preset: Preset) -> None:
    found = judged(preset, preset.package)
    writing = len(found.tools) - len(found.of(Becomes.READ))
    says = f"{preset.checked} | schema | {len(found.of(Becomes.UNDOABLE))} of {writing} tools that write |"
    page = (Path(__file__).parents[2] / "docs" / "presets.md").read_text(encoding="utf-8")
    assert f"| `{preset.name}` | `{preset.package}` {says}" in page


def test_a_server_takes_the_defaults_that_are_filled_in_for_it(preset: Preset) -> None:
    """Servers made with FastMCP state a null beside a type without one, for what may be left out."""
    for name, tool in listed_by(preset)["tools"].items():
        schema = InputSchema({**tool["inputSchema"], "required": []})
        assert schema.problems(schema.decoded({})) == (), name


@pytest.mark.parametrize("name", preset_names())
def test_whatever_a_server_undoes_says_what_is_left(name: str) -> None:
    whole = NOTHING_LEFT.get(name, set())
    silent = {
        tool
        for tool, table in load_preset(name).tools.items()
        if any("tool" in undo for undo in undos_of(table)) and not table.get("not_restored")
    }
    assert whole is None or silent <= whole


def undos_of(table: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every entry of an undo in a tool's table, of all its cases."""
    for each in table.get("cases", [table]):
        undo = each.get("undo", [])
        yield from undo if isinstance(undo, list) else [undo]
