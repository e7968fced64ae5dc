"""What the documents say is so: links lead somewhere, and the command's table is the command."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from saga_mcp.cli.commands import cli

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "examples").rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_inside_the_project_lead_to_files(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_links_each_page_of_the_docs() -> None:
    linked = {(PROJECT / target).resolve() for target in LINK.findall((PROJECT / "README.md").read_text())}
    assert {page for page in PAGES if page.parent.name == "docs"} <= linked


IN_A_BLOCK = re.compile(r"^ *(?:\$ |[^ `]*/)?saga-mcp ([^#\n]+)", re.MULTILINE)
IN_A_LINE = re.compile(r"`saga-mcp ([^`]+)`")


def commands_in(page: Path) -> list[str]:
    """What a page tells its reader to type after `saga-mcp`."""
    prose: list[str] = []
    blocks: list[str] = []
    for number, part in enumerate(re.split(r"^ *```.*$", page.read_text(), flags=re.MULTILINE)):
        (blocks if number % 2 else prose).append(part)
    return IN_A_LINE.findall("\n".join(prose)) + IN_A_BLOCK.findall("\n".join(blocks))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_command_that_a_page_names_is_there_with_its_options(page: Path) -> None:
    group: Any = typer.main.get_command(cli)
    for line in commands_in(page):
        name, *rest = line.replace("`", "").split()
        if name.startswith("--"):
            continue
        assert name in group.commands, line
        known = {option for parameter in group.commands[name].params for option in (*parameter.opts, "--help")}
        assert {word.rstrip(",.;:") for word in rest if word.startswith("--")} <= known, line


def test_commands_are_found_in_the_pages() -> None:
    assert "check --config saga.toml" in commands_in(PROJECT / "README.md")
    assert "init --python my-tools" in {line.strip() for line in commands_in(PROJECT / "docs" / "install.md")}
