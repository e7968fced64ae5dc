"""What `init` says about the command it was started as."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from saga_mcp.cli import starter


def test_an_installation_in_a_cache_is_warned_of_and_another_is_not(tmp_path: Path) -> None:
    cache, kept = tmp_path / "cache", tmp_path / "project" / ".venv"
    for prefix in (cache / "archive" / "x1", kept):
        prefix.mkdir(parents=True)
    (cache / "CACHEDIR.TAG").touch()
    (kept / "CACHEDIR.TAG").touch()  # uv marks the environments themselves too
    assert "uv tool install" in (starter.passing(cache / "archive" / "x1") or "")
    assert starter.passing(kept) is None


def test_a_command_is_quoted_as_the_system_s_shell_reads_it() -> None:
    parts = ["/my tools/saga-mcp", "check"]
    assert starter.command_line(parts, "linux") == "'/my tools/saga-mcp' check"
    assert starter.command_line(parts, "win32") == '"/my tools/saga-mcp" check'


def test_without_a_script_the_command_is_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert starter.own_command("/nowhere/__main__.py") == [str(tmp_path / "python"), "-P", "-m", "saga_mcp"]
