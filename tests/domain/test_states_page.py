"""The table of states and events that people read is what the machine does."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_states_is_what_the_walk_observes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "states.py"))
    assert (ROOT / "docs" / "states.md").read_text("utf-8") == script["page"](), "run: python scripts/states.py"
