"""A project with tools that go wrong on demand, and the command run on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.written_to(tmp_path / "shop")
