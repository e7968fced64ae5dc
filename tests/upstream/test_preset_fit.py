"""A server that moved on, one day, to a version that its preset was not made for: told, and its tools stay."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import structlog
from tests.upstream.desk import Desk

STUB = Path(__file__).parents[1] / "adopting" / "stub_server.py"
TOOLS = {
    "create_entities": {"type": "object", "properties": {"entities": {"type": "array"}}},
    "read_graph": {"type": "object"},
}


def moved_to(desk: Desk, version: str) -> None:
    """Put the memory server of that version behind saga-mcp, as `npx -y` starts it."""
    spec = {"name": "memory-server", "version": version, "log": str(desk.folder / "stub.log"), "tools": TOOLS}
    desk.folder.joinpath("spec.json").write_text(json.dumps(spec), encoding="utf-8")
    npx = desk.folder / "npx"
    npx.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}" "$(cat {desk.folder}/spec.json)"\n', encoding="utf-8")
    npx.chmod(0o755)
    desk.config.write_text(
        f'[saga]\nname = "desk"\ndatabase = "sqlite:///saga.db"\n'
        f"[upstreams.memory]\ncommand = {json.dumps(str(npx))}\n"
        'args = ["-y", "@modelcontextprotocol/server-memory"]\npreset = "memory"\n',
        encoding="utf-8",
    )


async def test_a_server_that_its_preset_was_not_made_for_is_logged_with_the_next_move_and_still_works(
    desk: Desk,
) -> None:
    moved_to(desk, "1.0.0")
    with structlog.testing.capture_logs() as said:
        async with desk.open() as agent:
            await agent.until_up("memory_read_graph")
            answer = await agent.call("memory_read_graph")
    warned = [each for each in said if each["event"] == "upstream_preset_misfit"]
    assert [(each["upstream"], each["version"], each["range"], each["log_level"]) for each in warned] == [
        ("memory", "1.0.0", ">=0.6.3, <0.7", "warning")
    ]
    assert "saga-mcp check" in warned[0]["do"]
    assert "@modelcontextprotocol/server-memory@2026.8.31" in warned[0]["do"]
    assert '"ok": true' in answer.text


async def test_nothing_is_logged_of_a_server_that_its_preset_was_made_for(desk: Desk) -> None:
    moved_to(desk, "0.6.3")
    with structlog.testing.capture_logs() as said:
        async with desk.open() as agent:
            await agent.until_up("memory_read_graph")
    assert [each for each in said if each["event"] == "upstream_preset_misfit"] == []


@pytest.mark.parametrize(("version", "told"), [("1.0.0", True), ("0.6.3", False)])
async def test_doctor_tells_a_server_that_its_preset_was_not_made_for(desk: Desk, version: str, *, told: bool) -> None:
    moved_to(desk, version)
    _, said = await desk.run("doctor")
    assert (f"this is {version}" in said) is told
    assert ('write "@modelcontextprotocol/server-memory@2026.8.31"' in said) is told
