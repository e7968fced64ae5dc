"""The locks say exactly what is installed, and nothing about where it came from."""

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;]+)( ; .*)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def pins(lock: str) -> dict[str, str]:
    """Name and version of what a lock pins."""
    lines = (PROJECT / "requirements" / f"{lock}.txt").read_text().splitlines()
    return {found[1]: found[2] for line in lines if (found := PIN.match(line))}


def normal(requirement: str) -> str:
    """The name in a requirement, as locks spell it."""
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


@pytest.mark.parametrize(
    "lock", ["run", "dev", "client-sdk1", "client-fastmcp", "server-git", "server-sqlite", "server-excel"]
)
def test_a_lock_holds_pins_and_their_hashes_and_nothing_else(lock: str) -> None:
    lines = (PROJECT / "requirements" / f"{lock}.txt").read_text().splitlines()
    assert [line for line in lines if not (PIN.match(line) or HASH.match(line))] == []
    assert len(pins(lock)) > 20


def test_what_the_project_needs_is_locked() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    groups: dict[str, list[str | dict[str, str]]] = declared["dependency-groups"]
    needed = {normal(each) for each in declared["project"]["dependencies"]}
    grouped = {normal(each) for group in groups.values() for each in group if isinstance(each, str)}
    assert needed <= pins("run").keys()
    assert grouped <= pins("dev").keys()


def test_the_development_lock_agrees_with_the_one_users_get() -> None:
    run, dev = pins("run"), pins("dev")
    assert {name: dev.get(name) for name in run} == run
