"""Asks many servers for their tools at the same time, while a person waits: for `adopt` and `check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio

from saga_mcp.cli.output import count
from saga_mcp.tools.upstream.asking import Answer, Listed, ask
from saga_mcp.tools.upstream.declared import Endpoint, Program

ASKED_WITHIN_S = 60.0
"""For all servers together. A first `npx` or `uvx` downloads what it starts."""
TOLD_EVERY_S = 10.0
"""How often somebody who waits is told for what."""


async def ask_all(places: Mapping[str, Program | Endpoint], told: Callable[[str], None]) -> dict[str, Answer]:
    """Ask every server, all at the same time, so that one limit holds for all of them together.

    Args:
        places: Where each is, by its name.
        told: Called with a line for each answer, and while there is none, for somebody who waits.
    """
    answers: dict[str, Answer] = {}

    async def ask_one(name: str, place: Program | Endpoint) -> None:
        answer = answers[name] = await ask(place, name, within_s=ASKED_WITHIN_S)
        told(f"{name}: {count(len(answer.tools), 'tool') if isinstance(answer, Listed) else 'did not come up'}")

    async def tell_who_waits() -> None:
        while True:
            await anyio.sleep(TOLD_EVERY_S)
            missing = [name for name in places if name not in answers]
            told(f"still waiting for {', '.join(missing)}; {ASKED_WITHIN_S:g} s are the limit")

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(tell_who_waits)
        async with anyio.create_task_group() as tasks:
            for name, place in places.items():
                tasks.start_soon(ask_one, name, place)
        waiting.cancel_scope.cancel()
    return {name: answers[name] for name in places}
