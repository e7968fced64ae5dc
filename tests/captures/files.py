"""A store of files, written by Python tools whose undo puts back what was there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from saga_tools import ToolRegistry, Undo


@dataclass
class Files:
    """The store, and what the tools were asked to do with it."""

    root: Path
    sent: list[str] = field(default_factory=list[str])
    """Every forward action and undo that began, in order."""
    reads: int = 0
    """How often it was looked at."""
    on_read: Callable[[int], None] = lambda _number: None
    """Called before each read with its number."""
    on_write: Callable[[str], Awaitable[None]] | None = None
    """Awaited by each write when the file is written."""
    registry: ToolRegistry = field(init=False)

    def __post_init__(self) -> None:
        """Register the tools."""
        self.registry = _registry(self)

    def path(self, name: str) -> Path:
        """Where a file is."""
        return self.root / name

    def put(self, name: str, content: bytes) -> None:
        """A person writes."""
        self.path(name).write_bytes(content)

    def content(self, name: str) -> bytes | None:
        """What is there; None: nothing."""
        return self.path(name).read_bytes() if self.path(name).exists() else None


def _registry(files: Files) -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool(guard="unchanged")
    async def write(name: str, text: str) -> int:
        files.sent.append(f"write({name})")
        files.put(name, text.encode())
        if files.on_write is not None:
            await files.on_write(name)
        else:
            await anyio.lowlevel.checkpoint()
        return len(text)

    @registry.captures(write)
    def content(name: str) -> bytes | None:
        files.reads += 1
        files.on_read(files.reads)
        return files.content(name)

    @registry.undoes(write)
    def restore(name: str, undo: Undo[int]) -> None:
        files.sent.append(f"restore({name})")
        if undo.capture is None:
            files.path(name).unlink()
        else:
            files.put(name, undo.capture)

    return registry
