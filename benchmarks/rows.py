"""What a measurement is, and how it is shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

_WIDTH = 140
"""Of a table that goes into a file."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What DESIGN allows: a limit of the ratio to the baseline, or of the subject itself."""

    limit: float
    of: Literal["ratio", "subject"] = "ratio"
    at_least: bool = False
    """The limit is a floor, as it is for a speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure and what it is compared with, both in `unit`."""

    what: str
    subject: float
    unit: str
    baseline: float | None = None
    baseline_is: str = ""
    budget: Budget | None = None

    @property
    def ratio(self) -> float | None:
        """The subject in terms of its baseline."""
        return self.subject / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the budget is kept; None where there is none."""
        if self.budget is None:
            return None
        figure = self.ratio if self.budget.of == "ratio" else self.subject
        if figure is None:
            return None
        return figure >= self.budget.limit if self.budget.at_least else figure <= self.budget.limit

    def as_json(self) -> dict[str, object]:
        """Everything about it."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def percentile(samples: Sequence[float], percent: int) -> float:
    """The value that so many percent of the samples stay below."""
    return statistics.quantiles(samples, n=100, method="inclusive")[percent - 1]


def show(rows: Sequence[Row], machine: str) -> None:
    """Print the table."""
    table = Table(title=machine, title_justify="left", title_style="")
    for head in ("what", "measured", "baseline", "", "ratio", "budget", "met"):
        table.add_column(head, justify="right" if head in {"measured", "baseline", "ratio", "budget"} else "left")
    for row in rows:
        table.add_row(
            row.what,
            f"{_number(row.subject)} {row.unit}",
            "" if row.baseline is None else _number(row.baseline),
            row.baseline_is,
            "" if row.ratio is None else f"{row.ratio:.2f} x",
            _budget(row),
            {True: "yes", False: "NO", None: ""}[row.met],
        )
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(table)


def _budget(row: Row) -> str:
    if row.budget is None:
        return ""
    unit = "x" if row.budget.of == "ratio" else row.unit
    return f"{'>=' if row.budget.at_least else '<='} {row.budget.limit:g} {unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits tell enough
