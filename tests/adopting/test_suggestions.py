"""What a catalogue says of other people's servers: shown with how it is known, and never more than a comment."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.adopting.desk import Desk

from saga_mcp import cli
from saga_mcp.cli.suggesting import AS_OF, suggestions_for
from saga_mcp.tools.presets import load_preset, preset_names

CATALOGUE: dict[str, Any] = json.loads(resources.files(cli).joinpath("suggestions.json").read_text(encoding="utf-8"))
KNOWN_BY = {
    "run",
    "seen",
    "seen with a made-up service",
    "read in its source",
    "read in its documentation",
    "read in its schema",
    "read in its schema, its answer unknown",
}
ARGOCD = "argocd-mcp"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    tools = dict.fromkeys([*CATALOGUE[ARGOCD]["write"], "something_new"])
    entry = desk.server("argo", tools)
    desk.write(argo={**entry, "args": [*entry["args"], f"{ARGOCD}@0.9.0"]})
    return desk


def test_every_row_says_what_it_takes_a_tool_for_and_how_that_is_known() -> None:
    rows = [(package, tool, row) for package, server in CATALOGUE.items() for tool, row in server["write"].items()]
    assert len(rows) > 600
    odd = [row for row in rows if row[2][0] not in {"compensable", "pivot", "residue"} or row[2][2] not in KNOWN_BY]
    assert odd == []


def test_where_there_is_a_preset_nothing_is_suggested() -> None:
    for name in preset_names():
        assert suggestions_for(["npx", "-y", load_preset(name).package]) is None, name


def test_what_the_catalogue_says_of_a_tool_is_a_comment_beside_it(desk: Desk) -> None:
    assert desk.adopt("--yes").code == 0
    text = desk.config.read_text()
    assert "tools" not in tomllib.loads(text)
    joined = text.replace("\n# ", " ")
    for tool, (kind, undo, known, _mind) in CATALOGUE[ARGOCD]["write"].items():
        assert f"{tool}, by a catalogue of {AS_OF}: {kind} ({known}){f': {undo}' if undo else ''}" in joined
        assert f'[tools."argo.{tool}"] kind = "pivot"' in joined
    assert "something_new, by a catalogue" not in joined


def test_check_says_what_the_catalogue_does_of_a_tool_that_nobody_declared(desk: Desk) -> None:
    assert desk.adopt("--yes").code == 0
    desk.config.write_text(f'{desk.config.read_text()}\n[tools."argo.something_new"]\nkind = "pivot"\n')
    warnings = desk.run("check", "--json", "--config", str(desk.config)).json["warnings"]
    for tool, (kind, _undo, known, _mind) in CATALOGUE[ARGOCD]["write"].items():
        assert [
            each
            for each in warnings
            if f"not offered: {tool}. The catalogue of {AS_OF} says {kind} ({known})" in each["message"]
        ]
