"""The pytest fixture; `from saga_mcp.testing.fixture import saga_harness` in a `conftest.py` makes it known.

Not an entry point, because then every run of pytest in an environment that has saga-mcp would import it. The only
module here that needs pytest.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, Protocol

import pytest

from saga_mcp.testing.harness import Harness
from saga_tools import ToolRegistry


class MakeHarness(Protocol):
    """Makes a `Harness`; see there."""

    def __call__(
        self,
        tools: ToolRegistry | Path | str,
        *,
        on_error: Literal["abort", "hold"] | None = None,
        on_undo_failure: Literal["halt", "continue"] | None = None,
        timeout_s: float | None = None,
    ) -> Harness:
        """Make one."""
        ...


@pytest.fixture
def saga_harness(tmp_path: Path) -> MakeHarness:
    """Makes a `Harness` whose log is kept in pytest's folder of the test, to look at after a failure.

    `async with saga_harness(registry) as h:`
    """
    return partial(Harness, database=tmp_path / "saga.db")
