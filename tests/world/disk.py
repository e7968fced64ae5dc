"""A file system of half a megabyte, for tests of what happens when it is full or cannot be written."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

SIZE = "512k"


@contextlib.contextmanager
def mounted(place: Path) -> Generator[bool]:
    """Mount it at `place`; whether that was possible, which takes root."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)  # noqa: S607 - the system's own


def fill_up(place: Path) -> Path:
    """Leave no room; the file that is in the way."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return ballast


def make_read_only(place: Path) -> None:
    """Take no more writes; possible while nobody has a file there open for writing."""
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)  # noqa: S607 - the system's own
