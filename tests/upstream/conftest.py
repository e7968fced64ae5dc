"""What the tests of upstreams share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.upstream.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.configure()
    return made
