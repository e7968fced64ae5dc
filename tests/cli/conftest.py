"""A project with tools that go wrong on demand, and the command run on it."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from tests.cli.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.written_to(tmp_path / "shop")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Generator[None]:
    """The command configures logging for its process; the process of the tests lives on."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
