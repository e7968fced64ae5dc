"""`python -m benchmarks [ROW ...] [--long] [--json] [--folder DIR]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks import in_process, load, over_stdio, proxied
from benchmarks.disk import fsync_ms
from benchmarks.rows import Row, show

ABORTS = (100, 1_000)
LONG_ABORTS = (*ABORTS, 10_000)


def main() -> int:
    """Measure what was asked for, and show it."""
    measurements: dict[str, Callable[[Path], Sequence[Row]]] = {
        "calls": over_stdio.calls,
        "commits": over_stdio.commits,
        "throughput": in_process.throughput,
        "abort": partial(in_process.abort, ABORTS),
        "start": over_stdio.start,
        "scan": in_process.scan,
        "memory": over_stdio.memory,
        "upstream": proxied.upstream,
        "load": load.load,
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What saga-mcp costs.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(measurements)}; default: all")
    parser.add_argument("--long", action="store_true", help="also abort 10,000 steps")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--folder", type=Path, help="measure on the disk of this folder; default: the temporary one")
    options = parser.parse_args()
    if options.long:
        measurements["abort"] = partial(in_process.abort, LONG_ABORTS)
    if unknown := set(options.rows) - measurements.keys():
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    chosen = {name: measure for name, measure in measurements.items() if name in (options.rows or measurements)}
    rows = measured(chosen, options.folder)
    if options.json:
        report = {"machine": machine(), "rows": [row.as_json() for row in rows]}
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        show(rows, machine())
    return 0


def measured(measurements: Mapping[str, Callable[[Path], Sequence[Row]]], folder: Path | None) -> Sequence[Row]:
    """Run each measurement in a folder of its own."""
    rows: list[Row] = []
    for name, measure in measurements.items():
        sys.stderr.write(f"{name} ...\n")
        with tempfile.TemporaryDirectory(prefix="saga-mcp-bench-", dir=folder) as own:
            rows += measure(Path(own))
    with tempfile.TemporaryDirectory(prefix="saga-mcp-bench-", dir=folder) as own:
        rows.append(Row(what="one fsync of 4 KiB, p50", subject=fsync_ms(Path(own)), unit="ms"))
    return rows


def machine() -> str:
    """What the figures depend on."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {load}; "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


if __name__ == "__main__":
    sys.exit(main())
