"""Looks at the world for steps: before one, right after it, and before its undo (SEMANTICS.md S6.6, S6.7).

What is seen is judged by the pair; here is only when it is looked, and for how long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog
from anyio.abc import TaskGroup

from saga_mcp.domain.errors import CaptureFailed
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.step_decisions import Observation, observed
from saga_mcp.domain.values import JsonValue, PartAction, StepState
from saga_mcp.engine.supervise import within
from saga_mcp.engine.workshop import Decider, Workshop
from saga_mcp.tools.images import same_image
from saga_mcp.tools.looks import NotSeen, Seen, World, lock_name
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.port import StepFacts
from saga_mcp.tools.unsent import UpstreamDown

T = TypeVar("T")

BEFOREHAND = 0.8
"""Of the time within which a reply is due."""

_SENDS_NOTHING = frozenset({PartAction.LEAVE, PartAction.NOTHING})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a step left behind: the after-image of its guard, and what its pair reads of its own (S6.7)."""

    image: JsonValue = None
    after: JsonValue = None


def left_later(saga: Saga, step: Step, pair: Pair) -> tuple[JsonValue, ...]:
    """Return what later steps of the saga made of the thing that a step is guarded by, and leave so on purpose.

    Only as far as each found what the one before it had left: what somebody else did in between counts as a change.
    """
    if pair.guard is None or pair.guard.call is not None:
        return ()
    thing = lock_name(pair, step.plan, saga.id)
    left = [step.image]
    for later in saga.steps[step.number :]:
        if later.plan.pair_hash != step.plan.pair_hash or lock_name(pair, later.plan, saga.id) != thing:
            continue
        if later.landed is False:
            continue
        stays = all(part.spec.action in _SENDS_NOTHING for part in later.parts or ())
        follows = same_image(later.capture, left[-1], ignore_order=pair.guard.ignore_order)
        if not (later.landed and later.parts and stays and follows):
            break
        left.append(later.image)
    return tuple(left[1:])


class Witness:
    """Makes the reads that pairs ask for."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks

    async def before(self, pair: Pair, step: StepFacts) -> JsonValue:
        """Return the capture of a step that has no number yet.

        Raises:
            CaptureFailed: it could not be made exactly, so nothing may be sent.
            UpstreamDown: what it calls cannot be reached, so nothing may be sent now.
        """
        # Whoever waits for the call is to be told in time.
        within_s = min(pair.timeout_s, BEFOREHAND * self._shop.settings.reply_within_s)
        sight = await self._in_time(pair, lambda: self._shop.looks.capture(pair, step), within_s)
        if isinstance(sight, NotSeen):
            if sight.unreached and pair.capture is not None:
                raise UpstreamDown(pair.capture.call.tool, sight.reason)
            raise CaptureFailed(pair.tool, sight.reason)
        # What could not be put back is not changed.
        if reason := self._shop.catalogue.unbuildable(pair, replace(step, capture=sight.image)):
            raise CaptureFailed(pair.tool, reason)
        return sight.image

    async def after(self, saga: Saga, number: int, pair: Pair, *, text: str | None, exact: bool) -> Decider:
        """Read what a step left behind; return what is appended about it.

        Args:
            saga: The state with the step's success.
            number: The step.
            pair: As frozen.
            text: What the call answered; None where that is not at hand.
            exact: Whether its result is what the tool returned.
        """
        step = saga.step(number)
        left = await self.left(pair, self._shop.facts(saga, step, result=step.result, known=True, text=text))
        return lambda now, driving: observed(
            now,
            number,
            Observation(
                undo=self._shop.undo_after(now, number, after=left.after, text=text, exact=exact),
                image=left.image,
                after=left.after,
            ),
            driving,
        )

    async def left(self, pair: Pair, facts: StepFacts) -> Left:
        """Read what a step left behind, as far as its pair wants to know it."""
        image: JsonValue = None
        after: JsonValue = None
        if pair.guard is not None and pair.guard.call is None:
            image = self._image(facts, await self._in_time(pair, lambda: self._shop.looks.left(pair, facts)))
        if pair.after is not None:
            after = self._image(facts, await self._in_time(pair, lambda: self._shop.looks.after(pair, facts)))
        return Left(image=image, after=after)

    def _image(self, facts: StepFacts, sight: Seen | NotSeen) -> JsonValue:
        if isinstance(sight, NotSeen):
            _log.warning("not_seen_after_step", saga_id=facts.saga_id, step=facts.number)
            return None
        return sight.image

    async def world(self, saga: Saga, step: Step, pair: Pair) -> World | NotSeen:
        """What the guard of a step finds now.

        Of a step in doubt "as before" proves something only some time after its call has ended (S3.4).
        """
        facts = self._shop.known_facts(saga, step)
        later = left_later(saga, step, pair)
        found = await self._in_time(pair, lambda: self._shop.looks.guard(pair, facts, later))
        if found is World.AS_BEFORE and step.state is StepState.IN_DOUBT and pair.settle_s:
            await self._shop.clock.sleep(pair.settle_s)
            found = await self._in_time(pair, lambda: self._shop.looks.guard(pair, facts, later))
        return found

    async def _in_time(
        self, pair: Pair, look: Callable[[], Awaitable[T]], within_s: float | None = None
    ) -> T | NotSeen:
        """What was seen; a read has as long as the call that it serves, or as is said."""
        sight = await within(within_s or pair.timeout_s, look, self._tasks, self._shop.clock)
        return NotSeen("it did not answer in time") if sight is None else sight
