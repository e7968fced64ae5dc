"""A wheel, built as it would be published, and clean environments that hold it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
UV = BIN / "uv"
UV_OPTIONS = ("--no-config", "--system-certs", "--quiet")
INTERPRETER_ONLY = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "COV_CORE_SOURCE", "COVERAGE_PROCESS_START"}


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 200) -> str:
    """Run a command that has to succeed, without this test run's own environment; its stdout."""
    inherited = {name: value for name, value in os.environ.items() if name not in INTERPRETER_ONLY}
    done = subprocess.run(
        command, cwd=cwd, env={**inherited, **(env or {})}, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{[str(part) for part in command]}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Built:
    """What `uv build` made."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel in it, and nothing of this project's folder."""

    venv: Path

    @property
    def command(self) -> Path:
        return self.venv / "bin" / "saga-mcp"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both distributions, the wheel from the sdist: so the sdist is whole."""
    folder = tmp_path_factory.mktemp("dist")
    run(UV, *UV_OPTIONS, "build", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, cwd=PROJECT)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist)


@pytest.fixture(scope="session")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked versions without their hashes, for tools that would want a hash of our own wheel too."""
    lines = (PROJECT / "requirements" / "run.txt").read_text().splitlines()
    pins = [match[0] for line in lines if (match := re.match(r"\S+==[^\\]+", line))]
    assert len(pins) > 30
    file = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    file.write_text("\n".join(pins))
    return file


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel on top of the locked requirements, as scripts/setup.sh installs them."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    lock = PROJECT / "requirements" / "run.txt"
    run(UV, *UV_OPTIONS, "venv", "--python", sys.executable, venv, cwd=venv.parent)
    into = {"VIRTUAL_ENV": str(venv)}
    run(
        UV,
        *UV_OPTIONS,
        "pip",
        "install",
        "--compile-bytecode",
        "--require-hashes",
        "-r",
        lock,
        cwd=venv.parent,
        env=into,
    )
    run(UV, *UV_OPTIONS, "pip", "install", "--compile-bytecode", "--no-deps", built.wheel, cwd=venv.parent, env=into)
    return Installed(venv)
