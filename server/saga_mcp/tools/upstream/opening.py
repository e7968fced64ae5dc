"""The way to an upstream, whichever it is: a program that we start, or a server that runs elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio

from saga_mcp.tools.upstream.declared import Endpoint, Program
from saga_mcp.tools.upstream.http import reached
from saga_mcp.tools.upstream.lines import FromProgram, ToProgram
from saga_mcp.tools.upstream.process import Process, running
from saga_mcp.tools.upstream.tap import Tap

_LAST_WORDS_S = 1.0


@contextlib.asynccontextmanager
async def opened(
    place: Program | Endpoint, name: str, mark: Callable[[], Path] | None = None
) -> AsyncGenerator[tuple[Process | None, Tap]]:
    """Open it until the block ends; a program has ended then, with all that it started.

    Args:
        place: Where it is.
        name: What the log calls it.
        mark: Names a file for the keeper of a program; see `running`.
    """
    if isinstance(place, Endpoint):
        async with reached(place) as tap:
            yield None, tap
        return
    async with running(place, name, mark and mark()) as process:
        yield process, Tap(FromProgram(process.output, name), ToProgram(process.input, process.exited))


@contextlib.asynccontextmanager
async def streams(tap: Tap) -> AsyncGenerator[Any]:
    """The two ends of a tap, as the SDK's client takes them."""
    yield tap.read, tap.write


async def end_with(process: Process, tap: Tap) -> None:
    """End a connection whose process has ended, though somebody holds its stdout open; what it said last is read."""
    await process.exited.wait()
    with anyio.move_on_after(_LAST_WORDS_S):
        await tap.ended.wait()
    tap.ended.set()
