"""Who is alive on this machine, as the operating system knows it: one locked file per process (S3.5, S10.4).

Beside the database lies `<database>.owners/`. Each process creates `<owner>.lock` there, locks it, and keeps it open
for as long as it lives; when it ends, however it ends, the kernel drops the lock. Nothing compares clocks or trusts a
pid.

What a process has sent may go on in a server that it has started. So the keeper of each such server locks a mark,
`<owner>.<n>.kept`, before it starts it, and keeps it until all of it has ended: up to then the owner is not proved
dead. A mark names the server by pid and start time, for where the keeper has been killed itself.

POSIX record locks (`lockf`) and not `flock`: a `flock` survives in a forked child, so a dead server would look alive
as long as something it started runs. Record locks have a trap of their own: they belong to the process and are
dropped when it closes *any* descriptor of the file. So a process never opens a file of its own again; it knows by
itself which ones are its own, and a forked child, which holds no lock, does not take its parent's for its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from saga_mcp.domain.living import Life
from saga_mcp.log.guard import guarded, ours
from saga_mcp.log.port import Claim

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SUFFIX: Final = ".lock"
_KEPT: Final = ".kept"
_PLACE: Final = "place"
"""A file with what tells this directory from others."""
_DIRECTORY_LOCK: Final = "directory"
"""A file without the suffix of an owner's, locked while files are made or removed."""

_held: set[tuple[int, Path]] = set()
"""Files that a process has locked, with its pid: as global as the locks themselves, which belong to the process."""
_directory_turn = threading.Lock()
"""Record locks do not hold off threads of one process."""


@dataclass(frozen=True, slots=True)
class LivingOwner:
    """A process that holds its lock, as its file describes it to people."""

    id: str
    pid: int
    epoch: int
    """Schema epoch that it writes."""
    started_at: float
    serves: str
    """Realm whose sagas it drives for as long as it lives; empty: none, as with a command that ends soon."""
    host: str = ""
    """The machine that it runs on; empty: this one."""

    @property
    def where(self) -> str:
        """By which number it is found, and on which machine where that is another one."""
        return f"{self.pid} on {self.host}" if self.host else str(self.pid)


class FileOwners:
    """This process's claim to be alive, and its knowledge of others; the port's `Owners` for one machine."""

    def __init__(self, directory: Path, me: str, descriptor: int) -> None:
        self._directory = directory
        self._me = me
        self._descriptor = descriptor
        self._marked = 0

    @classmethod
    @contextlib.contextmanager
    def claim(cls, directory: Path, *, epoch: int, serves: str = "") -> Generator[FileOwners]:
        """Take a fresh owner id, and hold its lock until the block ends.

        Args:
            directory: see `directory_of`.
            epoch: schema epoch that this process writes.
            serves: see `LivingOwner.serves`.

        Raises:
            OSError: the directory cannot be written.
        """
        directory.mkdir(mode=0o700, exist_ok=True)
        directory = directory.resolve()
        me = f"own-{secrets.token_hex(8)}"
        path = _file_of(directory, me)
        key = (os.getpid(), path)
        with _locked_directory(directory):
            _reap(directory)
            # Under the directory's lock no reaper can see the file between its creation and its lock.
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            _held.add(key)
            _lock(descriptor)
            facts = {"pid": os.getpid(), "epoch": epoch, "started_at": time.time(), "serves": serves}
            os.write(descriptor, json.dumps(facts).encode())
        try:
            with guarded(path, directory / _DIRECTORY_LOCK):
                yield cls(directory, me, descriptor)
        finally:
            if os.getpid() == key[0]:
                with _locked_directory(directory):
                    with contextlib.suppress(OSError):
                        path.unlink()
                    os.close(descriptor)
                    _held.discard(key)

    @property
    def me(self) -> str:
        """This process's owner id, fresh per claim."""
        return self._me

    def alive(self, owner: str) -> bool:
        """Whether the process behind `owner` lives. False is proof, on this host.

        Of `me`: whether others still see this process as alive, which ends when somebody removes its file.
        """
        if not _NAME.fullmatch(owner):
            return False
        if owner == self._me:
            return self._is_in_place()
        return _is_locked(_file_of(self._directory, owner)) or any(map(_is_kept, _marks(self._directory, owner)))

    @property
    def standing(self) -> Claim:
        """See the port's `Owners`."""
        return Claim.HELD if self._is_in_place() else Claim.LOST

    @property
    def trouble(self) -> str:
        """See the port's `Owners`."""
        if self._is_in_place():
            return ""
        return (
            "The file that shows other processes that this server lives was removed, so they take its work over. "
            "Nothing was stored and nothing was sent. Restart the server."
        )

    async def look(self, owners: Collection[str]) -> Mapping[str, Life]:
        """See the port's `Owners`."""
        return {each: Life.LIVES if each == self._me or self.alive(each) else Life.DEAD for each in owners}

    async def others_serve(self, realm: str) -> bool:
        """See the port's `Owners`."""
        return any(each.serves == realm for each in living(self._directory))

    def mark(self) -> Path:
        """See the port's `Owners`."""
        self._marked += 1
        return self._directory / f"{self._me}.{self._marked}{_KEPT}"

    def _is_in_place(self) -> bool:
        # By status only: opening the file and closing it again would drop the lock.
        try:
            return os.path.samestat(_file_of(self._directory, self._me).stat(), os.fstat(self._descriptor))
        except OSError:
            return False


def directory_of(database: Path) -> Path:
    """Where the owners of a database keep their locks."""
    return database.with_name(f"{database.name}.owners")


def place_of(database: Path) -> str:
    """What tells the place where the owners of a database keep their locks from all others, of whatever machine.

    Raises:
        OSError: the directory cannot be written.
    """
    file = directory_of(database).resolve() / _PLACE
    if not file.exists():
        fresh = file.with_name(f"{_PLACE}.{secrets.token_hex(8)}")
        fresh.write_text(secrets.token_hex(16), encoding="ascii")
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(fresh, file)
        fresh.unlink()
    # A folder may be in an image that many machines start from, or on a drive that they share.
    return f"{file.read_text(encoding='ascii')}@{socket.gethostname()}"


def living(directory: Path) -> list[LivingOwner]:
    """Every other process that holds a lock in `directory`."""
    found: list[LivingOwner] = []
    for path in _files(directory.resolve()):
        try:
            if _is_mine(path) or not _is_locked(path):
                continue
            facts = json.loads(path.read_text(encoding="utf-8"))
            found.append(
                LivingOwner(
                    path.stem,
                    int(facts["pid"]),
                    int(facts["epoch"]),
                    float(facts["started_at"]),
                    str(facts.get("serves", "")),
                )
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it ended meanwhile, or never got to describe itself
    return found


def stale(directory: Path) -> list[str]:
    """Owner ids of processes that are gone and left their files; the next claim removes them."""
    return [path.stem for path in _files(directory.resolve()) if not _is_locked(path)]


def _file_of(directory: Path, owner: str) -> Path:
    return directory / f"{owner}{_SUFFIX}"


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{_SUFFIX}"))


def _is_mine(path: Path) -> bool:
    return (os.getpid(), path) in _held


def _reap(directory: Path) -> None:
    """Remove the files of dead processes. Only under the directory's lock: see `claim`."""
    for path in _files(directory):
        if not _is_locked(path):
            with contextlib.suppress(OSError):  # gone, or another user's
                path.unlink()
    for path in _marks(directory, "*"):
        # While its owner lives it may just be made.
        if not _is_locked(_file_of(directory, path.name.partition(".")[0])) and not _is_kept(path):
            with contextlib.suppress(OSError):
                path.unlink()


@contextlib.contextmanager
def _locked_directory(directory: Path) -> Generator[None]:
    with _directory_turn:
        with ours():
            descriptor = os.open(directory / _DIRECTORY_LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)


def _is_locked(path: Path) -> bool:
    """Whether a living process holds the file. Never opens a file that this process has locked."""
    if _is_mine(path):
        return True
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # no proof of death
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _marks(directory: Path, owner: str) -> list[Path]:
    return sorted(directory.glob(f"{owner}.*{_KEPT}"))


def _is_kept(mark: Path) -> bool:
    """Whether the keeper that has this mark lives, or what it has started."""
    if _is_locked(mark):
        return True
    try:
        kept = json.loads(mark.read_text(encoding="utf-8"))
        # As the keeper has read it: the name stands in parentheses, and may hold any character.
        status = Path(f"/proc/{int(kept['pid'])}/stat").read_bytes().rpartition(b")")[2].split()
        return status[0] != b"Z" and status[19].decode() == kept["started"]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return False  # it has ended, or had started nothing


if sys.platform == "win32":
    import msvcrt

    # Windows keeps others from reading locked bytes, so what is locked lies far behind the text for people.
    _FAR_BEHIND: Final = 0x7FFF_0000

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR_BEHIND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _FAR_BEHIND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)

    def _try_lock(descriptor: int) -> bool:
        # Shared: two processes that probe at the same time do not take each other for the owner.
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
