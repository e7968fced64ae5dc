"""What is in the distributions, and what is not."""

from __future__ import annotations

import email
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.packaging.conftest import PROJECT, Built

pytestmark = pytest.mark.slow

ROOTS = {"saga_mcp": PROJECT / "server" / "saga_mcp", "saga_tools": PROJECT / "tool_registry" / "saga_tools"}


def sources() -> set[str]:
    """Every file of both packages, by its path in the wheel."""
    return {
        f"{name}/{path.relative_to(root).as_posix()}"
        for name, root in ROOTS.items()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_the_wheel_holds_both_packages_whole_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == sources()
    assert {"saga_mcp/py.typed", "saga_tools/py.typed", "saga_mcp/log/sql/migrations/env.py"} <= names
    assert {Path(name).name for name in about} == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE"}


def test_the_wheel_fits_every_platform_and_says_what_it_needs(built: Built) -> None:
    assert built.wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(built.wheel) as wheel:
        [metadata] = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        about = email.message_from_bytes(wheel.read(metadata))
        [points] = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
        assert wheel.read(points).decode().split() == ["[console_scripts]", "saga-mcp", "=", "saga_mcp.cli:main"]
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert (about["Name"], about["Version"]) == ("saga-mcp", declared["version"])
    assert about["License-Expression"] == "Apache-2.0"
    every = about.get_all("Requires-Dist", [])
    needed = {re.split(r"[<>=!~\[ ]", each)[0] for each in every if "extra ==" not in each}
    assert needed == {re.split(r"[<>=!~\[ ]", each)[0] for each in declared["dependencies"]}
    assert not needed & {"uv", "hatchling", "pytest", "aiosqlite", "greenlet"}


def test_the_sdist_holds_what_the_wheel_is_built_from(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    packages = {name for name in names if name.startswith(("server/", "tool_registry/"))}
    assert {name.partition("/")[2] for name in packages} == sources()
    assert names - packages == {
        "PKG-INFO",
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        ".gitignore",
    }


def test_no_file_names_the_machine_it_was_built_on(built: Built) -> None:
    here = [str(folder).encode() for folder in (PROJECT, Path.home()) if len(folder.parts) > 1]
    assert here
    with zipfile.ZipFile(built.wheel) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    assert [name for name, content in contents.items() if any(folder in content for folder in here)] == []
