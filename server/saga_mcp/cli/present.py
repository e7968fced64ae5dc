"""What there is now of what a saga's steps captured, and of what their guards watch: read again, by their own tools.

Apart from `diff`, which only compares: this starts servers and calls tools, though only such as read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from saga_mcp import app
from saga_mcp.cli.ground import Ground, stdout_kept_clean
from saga_mcp.cli.standing import Pairs
from saga_mcp.domain.hiding import Hiding, hiding
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import JsonValue
from saga_mcp.engine.facts import offered_as, stored_facts_of
from saga_mcp.tools.looks import Looks, NotSeen, Seen, World, found_by
from saga_mcp.tools.pair import Guard, Pair, PairUnreadable, ReadCall
from saga_mcp.tools.port import Catalogue, ReadFailed, StepFacts

_UP_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the guard of a step reads now, by a read of its own."""

    tool: str
    as_left: str
    """Its condition for "as the step left it", as the config has it."""
    as_before: str
    finds: World | None = None
    """None: it could not be told."""
    text: str = ""
    result: JsonValue = None
    unseen: str = ""
    """Why it could not be told."""


@dataclass(frozen=True, slots=True)
class Present:
    """What is there now."""

    image: JsonValue = None
    unseen: str = ""
    """Why that could not be read; empty: it was."""
    watched: Watched | None = None
    """None: its guard, if it has one, makes the capture again."""


def looked_at(saga: Saga, number: int | None) -> list[Step]:
    """The steps of a saga, or one of them, of whose time there may be something to look at again."""
    steps = () if saga.wiped else saga.steps
    return [step for step in steps if (step.capture is not None or step.plan.guarded) and number in {None, step.number}]


async def look_again(ground: Ground, saga: Saga, steps: Sequence[Step], pairs: Pairs) -> dict[int, Present]:
    """What there is now of what each of these steps captured, or is guarded by, as it may be shown."""
    hide = hiding(saga)
    frozen = [pair for step in steps if isinstance(pair := pairs[step.number], Pair)]
    reads = [pair.capture.call.tool for pair in frozen if pair.capture]
    reads += [pair.guard.call.tool for pair in frozen if pair.guard and pair.guard.call]
    needed = {name.partition(".")[0] for name in reads}
    upstreams = tuple(each for each in ground.loaded.upstreams if each.name in needed)
    with stdout_kept_clean():
        async with app.open_tools(replace(ground.loaded, upstreams=upstreams), up_within_s=_UP_WITHIN_S) as catalogue:
            found = {step.number: await _present(catalogue, saga, step, pairs[step.number]) for step in steps}
    return {number: _shown(now, hide) for number, now in found.items()}


def _shown(now: Present, hide: Hiding) -> Present:
    watched = now.watched
    if watched is not None:
        watched = replace(
            watched,
            text=hide.text(watched.text),
            result=hide.json(watched.result),
            unseen=hide.text(watched.unseen),
        )
    return Present(hide.json(now.image), hide.text(now.unseen), watched)


async def _present(catalogue: Catalogue, saga: Saga, step: Step, pair: Pair | PairUnreadable) -> Present:
    if isinstance(pair, PairUnreadable):
        return Present(unseen=str(pair))
    looks, facts = Looks(catalogue.reader), stored_facts_of(saga, step, pair.key_format, partial(offered_as, catalogue))
    guard = pair.guard
    watched = None if guard is None or guard.call is None else await _watched(looks, guard, guard.call, facts, pair)
    if pair.capture is None:
        return Present(unseen="its pair captures nothing", watched=watched)
    with anyio.move_on_after(pair.timeout_s):
        sight = await looks.capture(pair, facts)
        return Present(sight.image, "", watched) if isinstance(sight, Seen) else Present(None, sight.reason, watched)
    return Present(unseen=f"{pair.capture.call.tool} did not answer within {pair.timeout_s:g} s", watched=watched)


async def _watched(looks: Looks, guard: Guard, call: ReadCall, facts: StepFacts, pair: Pair) -> Watched:
    said = Watched(tool=call.tool, as_left=str(guard.as_left), as_before=str(guard.as_before))
    with anyio.move_on_after(pair.timeout_s):
        answer = await looks.watched(call, facts)
        found = found_by(guard, answer, facts)
        if not isinstance(answer, ReadFailed):
            said = replace(said, text=answer.text or answer.error, result=answer.result)
        return replace(said, unseen=found.reason) if isinstance(found, NotSeen) else replace(said, finds=found)
    return replace(said, unseen=f"it did not answer within {pair.timeout_s:g} s")
