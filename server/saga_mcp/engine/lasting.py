"""What goes on although whoever asked for it leaves: a request only waits for it (DESIGN.md rule 6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from saga_mcp.domain.errors import LogUnsettled

T = TypeVar("T")


async def lasting(work: Callable[[], Awaitable[T]], tasks: TaskGroup) -> T:
    """Do `work` in a task of its own, and wait for what it returns.

    Between an append and what follows from it nobody can be cancelled so: what is stored is also told and driven.

    Raises:
        LogUnsettled: the process ends, and the work with it.
    """
    returned: list[T] = []
    errors: list[Exception] = []
    ended = anyio.Event()

    async def run() -> None:
        try:
            returned.append(await work())
        except Exception as error:  # noqa: BLE001 - raised to whoever waits
            errors.append(error)
        finally:
            ended.set()

    tasks.start_soon(run)
    await ended.wait()
    if errors:
        raise errors[0]
    if not returned:
        message = "This server is shutting down: it is not known whether this was stored. Look before you ask again."
        raise LogUnsettled(message)
    return returned[0]
