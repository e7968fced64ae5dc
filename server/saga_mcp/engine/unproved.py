"""Whether the reply to a step may still be on its way, where no connection tells (SEMANTICS.md S8.3).

Over HTTP a reply can be lost between a proxy and a client, and another replica may have sent it. Until the window is
over, an equal call is taken for the same one. By the wall clock, as a revert's window is: nothing else is shared.
"""

from __future__ import annotations

from saga_mcp.domain.state import Step
from saga_mcp.engine.missing import LookFirst
from saga_mcp.engine.workshop import Workshop


class Unproved:
    """What one call has to know of the steps of its saga."""

    def __init__(self, workshop: Workshop, saga_id: str) -> None:
        self._shop = workshop
        self._saga_id = saga_id
        self._recent: dict[int, bool] = {}

    def __call__(self, step: Step) -> bool:
        """Whether its outcome is so young that its reply cannot be taken for received.

        Raises:
            LookFirst: inside a decision, where the log has to be read before that can be said.
        """
        if step.number not in self._recent:
            raise LookFirst(lambda: self._look(step.number, step.order))
        return self._recent[step.number]

    async def _look(self, number: int, order: int) -> None:
        ended = await self._shop.log.history(self._saga_id, after_seq=order - 1, limit=1)
        age_s = self._shop.clock.wall() - ended[0].at if ended else 0.0
        self._recent[number] = age_s < self._shop.settings.replay_window_s
