"""The pytest fixture; `from saga_mcp.testing.fixture import saga_harness` in a `conftest.py` makes it known.

Not an entry point, because then every run of pytest in an environment that has saga-mcp would import it. The only
module here that needs pytest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from saga_mcp.testing.harness import Harness
from saga_tools import ToolRegistry

MakeHarness = Callable[[ToolRegistry | Path | str], Harness]


@pytest.fixture
def saga_harness(tmp_path: Path) -> MakeHarness:
    """Makes a `Harness` whose log is kept in pytest's folder of the test, to look at after a failure.

    `async with saga_harness(registry) as h:`
    """

    def make(tools: ToolRegistry | Path | str) -> Harness:
        return Harness(tools, database=tmp_path / "saga.db")

    return make
