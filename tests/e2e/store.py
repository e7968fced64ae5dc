"""A store of files whose server is killed at the n-th look at it: `DIE_AT_READ=n`."""

import os
import signal
from pathlib import Path

from saga_tools import ToolRegistry, Undo

registry = ToolRegistry()
_ROOT = Path(os.environ["STORE"])
_reads = [0]


@registry.tool(guard="unchanged", timeout_s=10)
def write(name: str, text: str) -> None:
    """Write a file."""
    (_ROOT / name).write_text(text)


@registry.captures(write)
def content(name: str) -> bytes | None:
    _reads[0] += 1
    if _reads[0] == int(os.environ.get("DIE_AT_READ", "0")):
        os.kill(os.getpid(), signal.SIGKILL)
    path = _ROOT / name
    return path.read_bytes() if path.exists() else None


@registry.undoes(write)
def restore(name: str, undo: Undo[None]) -> None:
    if undo.capture is None:
        (_ROOT / name).unlink()
    else:
        (_ROOT / name).write_bytes(undo.capture)
