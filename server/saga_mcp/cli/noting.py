"""Who looked at values, and when: a line in a file beside the saga log, written before they are shown (S11.4).

Not in the log: a look changes nothing there, works where it cannot be written, and can be at a saga whose chain is
evidence. Holds names and ids, and no value.
"""

from __future__ import annotations

import getpass
import json
import os
import time
from pathlib import Path

from saga_mcp.cli.output import Output
from saga_mcp.cli.timeline import utc_time


def note_look(database: Path, name: str, how: str, output: Output) -> None:
    """Note that values are about to be shown; where that cannot be written, say so and go on.

    Args:
        database: the saga log.
        name: the saga or item that is looked at.
        how: the command, with the options that show values.
        output: where a person is told.
    """
    file = database.with_name(f"{database.name}-looks.jsonl")
    line = json.dumps({"at": utc_time(time.time()), "by": _me(), "pid": os.getpid(), "saga": name, "how": how})
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        output.remark(f"This look at values is not noted: {file}: {error.strerror}")


def _me() -> str:
    """The user by name; empty where the system knows none, as in many containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
