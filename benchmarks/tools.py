"""The tools that are measured: they do next to nothing, so what is left is the cost of calling them.

Loaded by its path, as a user's file would be; `bare.py` serves the same `record` without saga-mcp.
"""

import asyncio

from saga_tools import ToolRegistry

registry = ToolRegistry()


@registry.tool
async def record(name: str, amount: int) -> dict[str, int | str]:
    """Record an amount."""
    return {"name": name, "amount": amount}


@registry.undoes(record)
async def forget(name: str) -> None:
    """Take it back."""
    del name


@registry.tool
async def hang(name: str) -> None:
    """Never answer."""
    del name
    await asyncio.Event().wait()


@registry.undoes(hang)
async def unhang(name: str) -> None:
    """Undo nothing."""
    del name
