"""What the documents say is so: links lead somewhere, and the command's table is the command."""

import re
from pathlib import Path

import pytest

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
