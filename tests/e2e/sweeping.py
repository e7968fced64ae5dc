"""Kills after each durable write in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


async def after_each_commit(lives_when_killed_after: Callable[[int], Awaitable[bool]]) -> None:
    """Run it killed after the second commit, the third and so on, until one lives to its end; the first opens the saga.

    Args:
        lives_when_killed_after: one run; whether it came to its end before that commit.
    """
    lived: list[int] = []

    async def run(at: int) -> None:
        if await lives_when_killed_after(at):
            lived.append(at)

    at = 2
    while not lived:
        async with anyio.create_task_group() as two_at_a_time:
            two_at_a_time.start_soon(run, at)
            two_at_a_time.start_soon(run, at + 1)
        at += 2
    assert min(lived) > 9, "so few commits are not the scenario"
