"""The key reference is made from the models, so it can be neither incomplete nor out of date."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_key_reference_is_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "config_reference.py"))
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    assert page == script["reference"](), "run: python scripts/config_reference.py"
