"""What there is now of what a saga's steps captured: read again, by the captures of their own tools.

Apart from `diff`, which only compares: this starts servers and calls tools, though only such as read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from saga_mcp import app
from saga_mcp.cli.ground import Ground, stdout_kept_clean
from saga_mcp.cli.standing import Pairs
from saga_mcp.domain.hiding import hiding
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonValue
from saga_mcp.tools.looks import Looks, Seen
from saga_mcp.tools.pair import Pair, PairUnreadable
from saga_mcp.tools.port import StepFacts

_UP_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Present:
    """What is there now."""

    image: JsonValue = None
    unseen: str = ""
    """Why that could not be read; empty: it was."""


async def look_again(ground: Ground, saga: Saga, steps: Sequence[Step], pairs: Pairs) -> dict[int, Present]:
    """What there is now of what each of these steps captured, as it may be shown."""
    hide = hiding(saga)
    frozen = [pairs[step.number] for step in steps]
    reads = [pair.capture.call.tool for pair in frozen if isinstance(pair, Pair) and pair.capture]
    needed = {name.partition(".")[0] for name in reads}
    upstreams = tuple(each for each in ground.loaded.upstreams if each.name in needed)
    with stdout_kept_clean():
        async with app.open_tools(replace(ground.loaded, upstreams=upstreams), up_within_s=_UP_WITHIN_S) as catalogue:
            looks = Looks(catalogue.reader)
            found = {step.number: await _present(looks, saga, step, pairs[step.number]) for step in steps}
    return {number: Present(hide.json(now.image), hide.text(now.unseen)) for number, now in found.items()}


async def _present(looks: Looks, saga: Saga, step: Step, pair: Pair | PairUnreadable) -> Present:
    if isinstance(pair, PairUnreadable):
        return Present(unseen=str(pair))
    if pair.capture is None:
        return Present(unseen="its pair captures nothing")
    facts = StepFacts(saga_id=saga.id, tool=step.tool, number=step.number, key="", args=step.plan.args)
    with anyio.move_on_after(pair.timeout_s):
        sight = await looks.capture(pair, facts)
        return Present(image=sight.image) if isinstance(sight, Seen) else Present(unseen=sight.reason)
    return Present(unseen=f"{pair.capture.call.tool} did not answer within {pair.timeout_s:g} s")
