"""The runbook knows every kind of attention item (docs/operations.md; its commands are tried in tests/cli)."""

from __future__ import annotations

import re
from pathlib import Path

from saga_mcp.domain.values import ItemKind

RUNBOOK = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_runbook_has_a_section_for_each_kind_of_item() -> None:
    assert re.findall(r"^### `(\w+)`$", RUNBOOK, re.MULTILINE) == [kind.value for kind in ItemKind]


def test_each_section_says_what_it_means_where_to_look_and_what_ends_it() -> None:
    for section in re.split(r"^### ", RUNBOOK.partition("\n## A service")[0], flags=re.MULTILINE)[1:]:
        for heading in ("**Means.**", "**Look**", "**Ends it.**"):
            assert heading in section, section[:40]
