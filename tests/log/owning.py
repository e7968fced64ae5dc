"""Owners in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

CLAIMING = """
import sys, time
from pathlib import Path
from saga_mcp.log.owners import FileOwners
with FileOwners.claim(Path(sys.argv[1]), epoch=7) as owners:
    print(owners.me, flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(place: Path | str, script: str = CLAIMING) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run `script`, which prints its owner id and then waits, and kill it and all it started at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as child:
        assert child.stdout is not None
        try:
            yield child, child.stdout.readline().strip()
        finally:
            with suppress(ProcessLookupError):  # a test may have killed it, with all it started
                os.killpg(child.pid, signal.SIGKILL)
