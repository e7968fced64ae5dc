"""The standard streams of a command, whatever it was started with: closed, full, or of an encoding that holds little.

Apart from `output`, because it has to be in order before any file is opened: the next file would get the number of a
closed stream, and be written to by whatever prints.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_STANDARD = 3


class OutputLost(Exception):
    """Stdout takes nothing any more, and not because its reader has gone: the disk is full, for example."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(
            f"The answer cannot be written to stdout: {reason.strerror}. What was recorded stays recorded."
        )


def make_usable() -> None:
    """Put nothing in the place of closed streams, and write out what an encoding cannot hold."""
    for number in range(_STANDARD):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - see above
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - see above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write to stdout.

    Raises:
        BrokenPipeError: its reader has gone.
        OutputLost: it cannot be written.
    """
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error) from error


def flush() -> None:
    """Write what is still kept back; raises as `write` does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error) from error


def give_up() -> None:
    """What is still kept back must not be tried again, with a complaint, when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C end a wait for the keyboard: the event loop would only take note of the first one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
