"""Folders full of files that are called like what the server imports, and tell on whoever imports them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

OURS = ("server", "tool_registry", "saga_tools")
THEIRS = ("mcp", "mcp_types", "sqlalchemy", "structlog", "pydantic", "anyio", "typer", "rich", "alembic", "cel", "re2")
PYTHON_S = ("__future__", "asyncio", "json", "logging", "sqlite3", "typing", "tomllib", "argparse")
BEFORE_MAIN = ("saga_mcp", "sitecustomize")
"""What the interpreter takes from PYTHONPATH before a line of ours runs; only `python -I` does not."""

_TRAP = """
with open({marker!r}, "a") as marker:
    marker.write(__name__ + "\\n")
print("this is no message of the protocol", flush=True)
raise RuntimeError("a foreign " + __name__ + " was imported")
"""


@dataclass(frozen=True)
class Hostile:
    """A folder with traps in it."""

    folder: Path
    marker: Path

    @property
    def sprung(self) -> list[str]:
        """Names of the traps that were imported."""
        return self.marker.read_text().split() if self.marker.exists() else []


def lay_traps(folder: Path, names: Iterable[str]) -> Hostile:
    """Make a folder with a trap for each name."""
    folder.mkdir()
    hostile = Hostile(folder, folder.with_suffix(".sprung"))
    for name in names:
        (folder / f"{name}.py").write_text(_TRAP.format(marker=str(hostile.marker)))
    return hostile
