"""A client's file that is a link, or cannot be replaced: what is decided by its name, and what a person is told."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.adopting.desk import SLACK, Desk

from saga_mcp.cli.adopting import applying
from saga_mcp.cli.adopting.client_file import replace_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and permission bits")


def linked(tmp_path: Path, name: str) -> tuple[Desk, Path]:
    """A project whose file lies elsewhere, under another name."""
    desk = Desk(tmp_path / name)
    desk.folder.mkdir()
    (tmp_path / "dotfiles").mkdir(exist_ok=True)
    target = tmp_path / "dotfiles" / f"{name}.json"
    desk.write(slack=desk.server("slack", SLACK))
    desk.file.rename(target)
    desk.file.symlink_to(target)
    return desk, target


def test_each_project_keeps_its_own_config_where_its_file_is_a_link(tmp_path: Path) -> None:
    for name in ("one", "two"):
        desk, target = linked(tmp_path, name)
        before = target.read_bytes()
        answer = desk.adopt("--yes")
        assert answer.code == 0, answer
        assert desk.config.is_file()
        assert answer.err.startswith("Claude Code config") or "Claude Code config" in answer.out
        assert desk.file.is_symlink()  # what is written is the file that it leads to
        assert list(desk.servers) == ["saga"]
        assert desk.servers["saga"]["args"][-1] == str(desk.config)
        assert (desk.folder / ".mcp.json.before-saga-mcp").read_bytes() == before
        assert desk.adopt("--revert", "--yes").code == 0
        assert (desk.file.is_symlink(), target.read_bytes()) == (True, before)


def test_the_config_that_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write(slack={**desk.server("slack", SLACK), "env": {"LOG_LEVEL": "debug", "SMTP_PASS": "hunter8"}})
    answer = desk.adopt("--yes")
    assert answer.code == 0, answer
    assert stat.S_IMODE(desk.config.stat().st_mode) == 0o600
    assert "Copied into saga.toml in clear: slack.LOG_LEVEL." in answer.out
    assert "hunter8" not in desk.config.read_text() + answer.out + answer.err
    assert desk.servers["saga"]["env"]["SMTP_PASS"] == "hunter8"  # noqa: S105 - no one's


def test_of_a_file_that_cannot_be_replaced_a_person_reads_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    desk.write(slack=desk.server("slack", SLACK))
    before = desk.file.read_bytes()

    def immutable(path: Path, content: bytes) -> None:
        if path == desk.file:
            raise PermissionError(1, "Operation not permitted")
        replace_file(path, content)

    monkeypatch.setattr(applying, "replace_file", immutable)  # as `chattr +i` has it, which not every machine knows
    answer = desk.adopt("--yes")
    assert answer.code == 1
    assert f"{desk.file} cannot be written: Operation not permitted. Make it and its folder writable" in answer.err
    assert "Nothing was changed" in answer.err
    assert desk.file.read_bytes() == before
    assert not desk.config.exists()
