"""Who looked at values is noted, and a look never fails for that (DESIGN.md 5.4)."""

from __future__ import annotations

import json
import stat

import pytest
from tests.cli.project import Project, here


def test_who_looked_at_values_stands_beside_the_log(project: Project) -> None:
    saga = project.saga(("book", "hunter2"))
    notes = project.folder / "saga.db-looks.jsonl"
    assert here(project, "show", saga.id) == here(project, "export", saga.id) == 0
    assert not notes.exists()
    assert here(project, "show", f"{saga.id}.1", "--values") == here(project, "export", saga.id, "--values") == 0
    assert here(project, "show", saga.id, "--diff") == 0
    lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    assert [(each["saga"], each["how"]) for each in lines] == [
        (f"{saga.id}.1", "show --values"),
        (saga.id, "export --values"),
        (saga.id, "show --diff"),
    ]
    assert all(each["by"] and each["at"] and each["pid"] for each in lines)
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600
    assert "hunter2" not in notes.read_text(encoding="utf-8")


def test_a_look_that_cannot_be_noted_works_and_says_so(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    saga = project.saga(("book", "hunter2"))
    (project.folder / "saga.db-looks.jsonl").mkdir()
    capsys.readouterr()
    assert here(project, "show", saga.id, "--values") == 0
    said = capsys.readouterr()
    assert "hunter2" in said.out
    assert "This look at values is not noted" in said.err
