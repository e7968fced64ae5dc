"""Attempts that are past their hard deadline in a process that lives: it may be stopped, or hang.

Nobody may undo what such a process may still do, for its lock is held and so nothing is proved (SEMANTICS.md S3.3,
S3.5). It cannot say itself how it is either, so it is computed by whoever looks, and stands in no event.
"""

from __future__ import annotations

from dataclasses import dataclass

from saga_mcp.cli.ground import Ground
from saga_mcp.cli.items import history
from saga_mcp.cli.standing import Wait, frozen_pairs, standing
from saga_mcp.domain.errors import SagaNotFound, SagaQuarantined
from saga_mcp.domain.hiding import hidden
from saga_mcp.domain.values import JsonObject
from saga_mcp.log.port import SagaLog


@dataclass(frozen=True, slots=True)
class Hanging:
    """One attempt."""

    saga_id: str
    wait: Wait

    def line(self) -> str:
        """For people."""
        return f"{self.saga_id}  {self.wait.line()}"

    def json(self) -> JsonObject:
        """For programs."""
        return {"saga": self.saga_id, **self.wait.json()}


async def hanging(ground: Ground, log: SagaLog) -> list[Hanging]:
    """Every such attempt of the realm."""
    alive = ground.alive()
    found: list[Hanging] = []
    for row in await log.busy_sagas(ground.realm):
        try:
            saga = hidden(await log.load(row.id))
        except (SagaNotFound, SagaQuarantined):
            continue
        records = [record async for record in history(log, saga.id)]
        stands = standing(
            saga,
            records,
            await frozen_pairs(log, saga.loose_steps),
            alive,
            {},
            {},
            here=ground.loaded.settings.host,
        )
        found += (Hanging(saga.id, wait) for wait in stands.found if wait.overdue)
    return found
