"""The wheel on each Python that it names, where this machine has it, with what it needs and nothing more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.packaging.conftest import PROJECT, Built, run
from tests.packaging.hostile import OURS, PYTHON_S, THEIRS, lay_traps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["classifiers"]
VERSIONS = [version for each in DECLARED if "." in (version := each.rpartition(" :: ")[2])]


def interpreter(version: str) -> Path:
    """Where this machine has a Python: on the PATH, or among pyenv's; or skip."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates: list[str | Path | None] = [
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"versions/{version}.*/bin/python")),
    ]
    for candidate in candidates:
        if candidate is None:
            continue
        about = "import sys; print('%d.%d' % sys.version_info[:2])"
        asked = subprocess.run([candidate, "-c", about], capture_output=True, text=True, timeout=30, check=False)
        if asked.stdout.strip() == version:
            return Path(candidate)
    pytest.skip(f"no Python {version} on this machine")


@pytest.mark.parametrize("version", VERSIONS)
def test_pip_installs_the_wheel_and_it_runs(version: str, built: Built, constraints: Path, tmp_path: Path) -> None:
    venv, hostile = tmp_path / "venv", lay_traps(tmp_path / "hostile", (*OURS, *THEIRS, *PYTHON_S))
    run(interpreter(version), "-m", "venv", venv, cwd=tmp_path)
    python, command = venv / "bin" / "python", venv / "bin" / "saga-mcp"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, built.wheel, cwd=tmp_path)
    assert run(python, "-m", "pip", "check", cwd=tmp_path).strip() == "No broken requirements found."
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json", cwd=tmp_path))
    assert not {package["name"] for package in listed} & {"uv", "hatchling", "pytest", "aiosqlite", "greenlet"}

    env = {"PYTHONPATH": str(hostile.folder), "PYTHONWARNINGS": "error::DeprecationWarning:saga_mcp"}
    told = run(command, "demo", "--json", cwd=hostile.folder, env=env)
    assert [saga["summary"].partition(":")[0] for saga in json.loads(told)["sagas"]] == ["committed", "compensated"]
    assert hostile.sprung == []
