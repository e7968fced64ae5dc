"""Keeps the user's tools from opening the log's own files inside this process.

POSIX record locks belong to the process and the file: closing *any* descriptor of a file drops all locks that the
process has on it (fcntl(2), "Record locks"). SQLite's locks are of that kind, and so is the one that proves to others
that this process lives. A tool that merely reads every file of a folder would make a second server believe that this
one is dead, and two writers believe that each has the log to itself. Python tells of every file it opens, so such an
open is refused: by whatever name, through links too, and relative to whatever folder.

What opens files without Python's knowledge (an extension in C) is not seen; the README says where not to put the
database. Programs that tools start are harmless: locks are per process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import cast

_guarded: Counter[str] = Counter()
"""Real paths, with how often each is guarded."""
_names: set[str] = set()
"""Their last parts: what an open is compared with first, because it happens often."""


class _Ours(threading.local):
    depth: int = 0


_ours = _Ours()
_installed = False
_turn = threading.Lock()


@contextlib.contextmanager
def guarded(*paths: Path) -> Generator[None]:
    """Refuse to open these files in this process, until the block ends."""
    global _installed  # noqa: PLW0603 - an audit hook cannot be taken back, so there is one per process
    real = [os.path.realpath(path) for path in paths]
    with _turn:
        _guarded.update(real)
        _names.update(map(os.path.basename, real))
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True
    try:
        yield
    finally:
        with _turn:
            _guarded.subtract(real)
            for path in [path for path, times in _guarded.items() if times <= 0]:
                del _guarded[path]
            _names.clear()
            _names.update(map(os.path.basename, _guarded))


@contextlib.contextmanager
def ours() -> Generator[None]:
    """Open a guarded file all the same: for the log's own code, which knows what closing it does."""
    _ours.depth += 1
    try:
        yield
    finally:
        _ours.depth -= 1


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event != "open" or not _names or _ours.depth:
        return
    try:
        name = os.fsdecode(cast("str", args[0]))
    except TypeError:
        return  # a descriptor that is open already
    if _is_guarded(name) or (args[1] is None and not os.path.isabs(name) and _is_guarded_in_an_open_folder(name)):  # noqa: PTH117 - a Path costs ten times as much
        raise PermissionError(
            errno.EACCES,
            "this file belongs to the saga log of this process, and opening it here would drop the log's locks; "
            "keep [saga] database outside of the folders that tools read",
            name,
        )


def _is_guarded(name: str, folder: int | None = None) -> bool:
    if folder is None and os.path.basename(name) in _names and os.path.realpath(name) in _guarded:  # noqa: PTH119 - see above
        return True  # also where it is not there yet
    found = _status(name, folder)
    # Each time anew: SQLite replaces its own files without Python's knowledge.
    return found is not None and any(os.path.samestat(found, own) for own in map(_status, [*_guarded]) if own)


def _is_guarded_in_an_open_folder(name: str) -> bool:
    """Of `os.open` one is not told the `dir_fd`, so it may be any folder that is open."""
    if os.open not in os.supports_dir_fd:
        return False
    try:
        descriptors = [int(each) for each in os.listdir("/dev/fd")]  # noqa: PTH208 - see above
    except (OSError, ValueError):
        return os.path.basename(name) in _names  # noqa: PTH119 - see above
    return any(_is_guarded(name, each) for each in descriptors)


def _status(name: str, folder: int | None = None) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder)
    except (OSError, ValueError):
        return None  # nothing is there to be opened
