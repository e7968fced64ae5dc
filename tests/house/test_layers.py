"""Imports point one way: the contracts of pyproject.toml, kept."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_imports_point_one_way() -> None:
    run = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    linted = subprocess.run(
        [sys.executable, "-c", run, "--no-cache"], cwd=PROJECT, capture_output=True, text=True, timeout=50, check=False
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "0 broken" in linted.stdout
