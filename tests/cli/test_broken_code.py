"""While the code of the tools is broken, a person can still see what is open."""

from __future__ import annotations

import pytest
from tests.cli.project import Project


@pytest.mark.slow
@pytest.mark.parametrize("command", ["list", "attention", "show", "export"])
def test_looking_needs_no_code(project: Project, command: str) -> None:
    saga = project.saga(("book", "room"))
    (project.folder / "tools.py").write_text("def broken(:\n")
    answer = project.run(command, *([saga.id] if command in {"show", "export"} else []))
    assert answer.code == 0, answer.err
    assert saga.id in answer.out or command == "attention"


@pytest.mark.slow
def test_what_would_drive_says_what_is_broken(project: Project) -> None:
    saga = project.saga(("book", "room"))
    (project.folder / "tools.py").write_text("def broken(:\n")
    answer = project.run("abort", saga.id, "--yes")
    assert answer.code == 2
    assert "tools.py" in answer.err
    assert project.world == ["room"]
