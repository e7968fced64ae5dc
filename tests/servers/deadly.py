"""Stands before a real server over stdio, and kills it with SIGKILL in the middle of a call that a test names.

A file `FOLDER/before-TOOL` strikes when the next call of the tool arrives, which the server then never sees;
`FOLDER/after-TOOL` when it has answered, which nobody then hears. Each strikes once. While there is a file
`FOLDER/closed` it does not start. A program of its own, because what dies has to be what saga-mcp has started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


def strikes(folder: Path, moment: str, tool: str) -> bool:
    """Whether a test wants it to die now; only once."""
    try:
        (folder / f"{moment}-{tool}").unlink()
    except FileNotFoundError:
        return False
    return True


def main(folder: Path, command: list[str]) -> None:
    while (folder / "closed").exists():
        time.sleep(0.02)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    called: dict[object, str] = {}

    def die() -> None:
        server.kill()
        server.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    def back() -> None:
        assert server.stdout is not None
        for line in server.stdout:
            message: dict[str, Any] = json.loads(line)
            tool = called.pop(message.get("id"), "") if "method" not in message else ""
            if tool and strikes(folder, "after", tool):
                die()
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    threading.Thread(target=back, daemon=True).start()
    for line in sys.stdin.buffer:
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "tools/call":
            called[message["id"]] = message["params"]["name"]
            if strikes(folder, "before", message["params"]["name"]):
                die()
        server.stdin.write(line)
        server.stdin.flush()
    server.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
