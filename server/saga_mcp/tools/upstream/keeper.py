"""The keeper of one upstream: a process of its own that starts the upstream, and ends with the last of its descent.

Run as a file, in an interpreter without site-packages, so it imports only the standard library:
`keeper.py CONTROL STATUS LOCALE SIZE MARK`, with the upstream's pipes as its own. CONTROL is the end of a pipe whose
other end is ours. The first SIZE bytes of it are the command, its words parted by NUL; among the keeper's own arguments
they would make it a victim of whoever kills the upstream by its name. After that `t` asks the upstream to end, and the
closing of the pipe, by us or by SIGKILL, ends all of it. To STATUS goes one line: that it runs, or why not. LOCALE is 1
where LC_CTYPE is the upstream's own, and not what Python has set. MARK is a file that it has locked for as long as
anything lives of what it starts, empty where there is none; whoever takes over from us waits for that.

On Linux whatever is left behind by its parent becomes the keeper's child (`prctl(2)`, PR_SET_CHILD_SUBREAPER), in
whatever session it is. So where the keeper has no child, there is none of the descent: only then it exits with
`ALL_ENDED`. Elsewhere it ends the group that it shares with the upstream, itself included.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

ALL_ENDED = 0
"""The exit code that says that nothing is left. Only Linux lets us know."""
UNKNOWN = 1
_SUBREAPER = 36
TERMINATE = b"t"
"""What asks the upstream to end."""
_LONGEST_PAUSE_S = 1.0
_HEARD = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals to our group that are not meant for us; a handler, unlike ignoring, is not handed on to the upstream."""


def main(control: int, status: int, size: int, mark: str) -> int:
    """Start the command, and see to its end."""
    if not mark:
        return _keep(control, status, size, None)
    import fcntl  # noqa: PLC0415 - Windows, which has no keeper, does not have it

    path = Path(mark)
    with path.open("x", encoding="utf-8") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        code = _keep(control, status, size, file)
        path.unlink(missing_ok=True)
    return code


def _keep(control: int, status: int, size: int, mark: TextIO | None) -> int:
    knows = _adopts_orphans()
    command = _read(control, size)
    if len(command) < size:  # whoever wanted it is gone
        return UNKNOWN
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *(each for each in _HEARD if signal.getsignal(each) is not signal.SIG_IGN)):
        signal.signal(number, _hear)
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
    try:
        # Python ignores these two, and what is ignored is handed on.
        words = command.split(b"\0")
        started = os.posix_spawnp(words[0], words, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    except OSError as error:
        _say(status, {"errno": error.errno, "strerror": error.strerror})
        return ALL_ENDED
    if mark is not None:
        print(json.dumps({"pid": started, "started": _started_at(started)}), file=mark, flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):  # the upstream's alone: who reads them learns of its end
        os.dup2(null, descriptor)
    _say(status, {"pid": started})
    try:
        _watch(started, control, wake)
    finally:  # whatever went wrong here: what was started does not outlive who looks after it
        code = _end_all() if knows else _end_group()
    return code


def _watch(started: int, control: int, wake: int) -> None:
    """Return when the upstream has ended, or nobody wants it any more."""
    heard = select.poll()  # `select` takes no descriptor from 1024 on, and these have the numbers that they had with us
    for descriptor in (control, wake):
        heard.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in heard.poll()}
        if wake in ready:
            os.read(wake, 1 << 10)
            if started in _ended():
                return
        if control in ready:
            said = os.read(control, 1)
            if not said:
                return
            if said == TERMINATE:
                os.kill(0, signal.SIGTERM)


def _hear(_number: int, _frame: object) -> None:
    """The wake-up descriptor has it already."""


def _read(control: int, size: int) -> bytes:
    read = b""
    while len(read) < size and (more := os.read(control, size - len(read))):
        read += more
    return read


def _adopts_orphans() -> bool:
    """Whether what our descent leaves behind becomes our child."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - nobody else needs it

    return ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) == 0 and Path("/proc/self/stat").exists()


def _say(status: int, what: dict[str, int | str | None]) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody asks any more; the other pipe says so too
        os.write(status, json.dumps(what).encode())
    os.close(status)


def _ended() -> list[int | None]:
    """Children that have ended since the last look; None: there are no children."""
    found: list[int | None] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return [*found, None]
        if not pid:
            return found
        found.append(pid)


def _started_at(pid: int) -> str:
    """In clock ticks since the machine was started; empty where nobody says it."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


def _end_all() -> int:
    """End the descent, in rounds: what loses its parent in one is our child in the next."""
    pause_s = 0.002
    while None not in _ended():
        for pid in _descent():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return ALL_ENDED


def _end_group() -> int:
    os.kill(0, signal.SIGKILL)
    return UNKNOWN


def _descent() -> list[int]:
    """Every process below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                # The name stands in parentheses, and may hold any character.
                after_name = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(after_name[1]), []).append(int(entry.name))
    found: list[int] = []
    below = [os.getpid()]
    while below:
        below = [child for parent in below for child in children.get(parent, [])]
        found += below
    return found


if __name__ == "__main__":
    if sys.argv[3] == "0":
        os.environ.pop("LC_CTYPE", None)
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), sys.argv[5]))
