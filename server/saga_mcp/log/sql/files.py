"""The database file itself: where it may lie, how it is created, and whether it is still there.

SQLite opens whatever it is given and creates what is missing. For a saga log both are dangerous: an empty new log in
place of one that was moved means lost undos, and a write-ahead log on a network file system means a corrupt one.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from saga_mcp.log.guard import ours
from saga_mcp.log.sql.trouble import NOTHING, LogFull, LogGone, LogOnNetwork, LogReadOnly

FileSystemOf: TypeAlias = Callable[[Path], str]
"""Name of the type of file system that a path lies on; empty where it cannot be told."""

NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        "9p",
        "afpfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.ceph",
        "fuse.davfs",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.grpcfuse",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb2",
        "smb3",
        "smbfs",
        "unc",
        "webdav",
    }
)
"""Where processes may not see each other's memory, which SQLite's write-ahead log needs (sqlite.org/wal.html)."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode: which file a path names."""

Sides: TypeAlias = tuple[Identity | None, Identity | None]
"""The write-ahead log and its index; None where there is none."""


def identity(path: Path, file: str = "") -> Identity | None:
    """Which file lies at `path`, or at the `file` beside it; None: none."""
    found = status(path, file)
    return None if found is None else (found.st_dev, found.st_ino)


def status(path: Path, file: str = "") -> os.stat_result | None:
    """What the operating system says of `path`, or of the `file` beside it; None: it is not there.

    Raises:
        LogReadOnly: it does not say.
    """
    try:
        return os.stat(file or path)  # noqa: PTH116 - at each transaction, and a Path costs more than the call
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused(path, error) from error


def gone(path: Path) -> LogGone:
    """`path` does not name the file that was opened any more: what is written now would be lost."""
    return LogGone(
        f"saga log {path} was moved, replaced or deleted while saga-mcp was using it; {NOTHING}. "
        "Put it back where it was, or restart saga-mcp."
    )


def side_files(path: Path) -> tuple[str, str]:
    """The files that SQLite keeps beside a database in use: its write-ahead log, and the index of that."""
    return f"{path}-wal", f"{path}-shm"


def sides(path: Path) -> Sides:
    """Which files lie beside the database at `path`."""
    wal, shm = side_files(path)
    return identity(path, wal), identity(path, shm)


def sides_gone(path: Path) -> LogGone:
    """The side files are no longer those that a connection works with.

    SQLite does not look: it goes on with files that nobody else finds any more, and the next process begins new ones.
    """
    return LogGone(
        f"a file beside the saga log {path} ({path.name}-wal or {path.name}-shm) was moved, replaced or deleted while "
        f"saga-mcp was using it; {NOTHING}. Stop every saga-mcp that uses this log, start again, and look at the open "
        "sagas before you go on: the last steps may be missing."
    )


def require_local(path: Path, file_system_of: FileSystemOf) -> None:
    """Check that the write-ahead log works where `path` lies.

    Raises:
        LogOnNetwork: it lies on a network file system.
    """
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise LogOnNetwork(
            f"saga log {path} lies on a network file system ({kind}), where SQLite's write-ahead log can be corrupted; "
            f'{NOTHING}. Set [saga] database to a local file, or to "postgresql://...".'
        )


def create(path: Path, *, make_parent: bool) -> None:
    """Create an empty file that only this user may read. SQLite gives its side files (-wal, -shm) the same mode.

    Args:
        path: where it is to lie.
        make_parent: create the directory too (0700). Only for the default location: in a configured one, a missing
        directory
            is more likely a volume that is not mounted than a wish for an empty log.
    """
    if make_parent:
        create_directory(path.parent)
    try:
        with ours():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise refused(path, error) from error


def copy_database(path: Path, folder: Path) -> Path:
    """Copy a database that nobody can be writing to, with what lies in its write-ahead log; returns the copy."""
    copied = folder / path.name
    with ours():
        shutil.copyfile(path, copied)
        ahead = Path(side_files(path)[0])
        if ahead.exists():
            shutil.copyfile(ahead, side_files(copied)[0])
    return copied


def create_directory(path: Path) -> None:
    """Create a directory that only this user may read, where there is none.

    Raises:
        LogReadOnly, LogFull: the operating system refused.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise refused(path, error) from error


def refused(path: Path, error: OSError) -> LogFull | LogReadOnly:
    """The condition behind an operating system's error."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return LogFull(f"no space left for the saga log {path}; {NOTHING}. Free some space and try again.")
    return LogReadOnly(
        f"saga log {path} cannot be opened ({error.strerror or error}); {NOTHING}. "
        "Its directory must exist and be writable for this user; if it is on a volume, mount that first."
    )


def file_system_of(path: Path) -> str:
    """The type of file system of the nearest existing directory, as the operating system names it."""
    if sys.platform == "win32":
        return "unc" if path.drive.startswith("\\\\") else ""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    place = path.resolve()
    points = [(_mount_point(line), line) for line in mounts.splitlines()]
    _, nearest = max(
        ((p, line) for p, line in points if place.is_relative_to(p)), key=lambda found: len(found[0].parts)
    )
    return nearest.partition(" - ")[2].split(" ", 1)[0]


def _mount_point(line: str) -> Path:
    """The fifth field of a line of mountinfo, where blanks are written as octal escapes (proc_pid_mountinfo(5))."""
    field = line.split(" ")[4]
    return Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field))
