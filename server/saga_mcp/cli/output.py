"""How every command speaks: text or JSON on stdout, remarks on stderr, and what its exit code says.

Its own module so that no command decides for itself what a failure looks like. JSON on stdout is always the whole
answer, errors included, so that a script never has to read prose.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from saga_mcp.cli import streams
from saga_mcp.domain.values import JsonValue
from saga_mcp.edge.clean import escape

_WIDE = 200
"""Columns of a table that no terminal limits: it is read by a program or kept in a file."""

_FEW_WORDS = 18


class Exit(IntEnum):
    """What an exit code means (DESIGN.md 5.4)."""

    DONE = 0
    FAILED = 1
    """Refused, or tried without success."""
    USAGE = 2
    """The command line or the config is wrong."""


class CommandFailed(Exception):
    """A command ends here: `main` prints why, as text or as JSON.

    Args:
        message: what is wrong and what to do about it.
        code: stable name of the condition.
        exit_code: see `Exit`.
        details: more of it, for `--json`.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        exit_code: Exit = Exit.FAILED,
        details: dict[str, JsonValue] | None = None,
    ) -> None:
        self.code = code
        self.exit_code = exit_code
        self.details = details or {}
        super().__init__(message)


def wrong_usage(message: str) -> NoReturn:
    """End the command because of how it was called.

    Raises:
        CommandFailed: always.
    """
    raise CommandFailed(message, code="usage", exit_code=Exit.USAGE)


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command's answer goes, and in which form."""

    as_json: bool

    def json(self, value: JsonValue) -> None:
        """Print the answer of `--json`."""
        streams.write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")

    def text(self, *lines: str) -> None:
        """Print lines for people; what came from outside is escaped by whoever put it in."""
        streams.write("".join(f"{line}\n" for line in lines))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table, or one block a row where the terminal is too narrow for it; nothing is cut off either way.

        Args:
            columns: their names; cells of the first are names that people copy, and stay in one piece.
            rows: their cells; what comes from outside is escaped here.
        """
        cells = [[escape(cell) for cell in row] for row in rows]
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDE
        plain = bool(os.environ.get("NO_COLOR"))  # Rich by itself would leave bold in
        rendered = io.StringIO()  # not stdout itself, whose troubles `streams` knows
        console = Console(
            file=rendered,
            force_terminal=sys.stdout.isatty(),
            width=width,
            highlight=False,
            color_system=None if plain else "auto",
        )
        if _least_width(columns, cells) > console.width:
            label = max(map(len, columns))
            for row in cells:
                self.text(*(f"{name:{label}}  {cell}" for name, cell in zip(columns, row, strict=True) if cell), "")
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for place, name in enumerate(columns):
            table.add_column(name, overflow="fold", no_wrap=place == 0)
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        streams.write(rendered.getvalue())

    def remark(self, *lines: str) -> None:
        """Tell a person what is going on; never part of the answer."""
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


def _least_width(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """How wide a table has to be to be readable: the first column whole, of the others what a few words take."""
    widths = [max(len(name), *(len(row[place]) for row in cells)) for place, name in enumerate(columns)]
    return sum(min(width, _FEW_WORDS) if place else width for place, width in enumerate(widths)) + 2 * len(columns)


def report(error: CommandFailed, *, as_json: bool) -> None:
    """Print why a command failed."""
    if as_json:
        Output(as_json=True).json({"error": {"code": error.code, "message": str(error), **error.details}})
    else:
        sys.stderr.write("".join(f"{escape(line)}\n" for line in str(error).splitlines()))


def count(number: int, noun: str) -> str:
    """`1 saga`, `2 sagas`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def age(seconds: float) -> str:
    """How long ago, in the one unit that matters: `14m`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
