"""Asks whether an in-doubt undo took effect, until there is a verdict or no time left (SEMANTICS.md S6.4)."""

from __future__ import annotations

import itertools
import math

from anyio.abc import TaskGroup

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.duties import ProbeUndo
from saga_mcp.domain.events import Event
from saga_mcp.domain.hosts import is_elsewhere
from saga_mcp.domain.ids import undo_key
from saga_mcp.domain.rollback import undo_probed_now
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.stranded import attempt_of
from saga_mcp.domain.undo_decisions import undo_probed
from saga_mcp.domain.undo_parts import part_of
from saga_mcp.domain.values import PartState
from saga_mcp.engine.probing import PROBE_SCHEDULE
from saga_mcp.engine.supervise import within
from saga_mcp.engine.witness import Witness
from saga_mcp.engine.workshop import Decider, Workshop
from saga_mcp.tools.looks import NotSeen, World
from saga_mcp.tools.pair import Pair, PairUnreadable, UndoEntry
from saga_mcp.tools.port import Asked, UndoContext

_UNDONE = {World.AS_BEFORE: True, World.AS_LEFT: False, World.CHANGED: None}
"""What the world says about an undo of unknown outcome."""


class UndoProbing:
    """Probes the undos that are in doubt."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._witness = Witness(workshop, tasks)

    async def run(self, saga: Saga, duty: ProbeUndo) -> None:
        """Probe one part, until a verdict is stored or there is no time left.

        What is not undone so far may be on its way until the attempt's end lies `settle_s` back (S3.4); one elsewhere
        is asked about before its end, too.
        """
        number, part = duty.step.number, duty.part
        try:
            pair = await self._shop.pairs.of(duty.step)
        except PairUnreadable:
            await self._shop.decide(saga.id, lambda now, d: undo_probed(now, number, part.id, done=None, driving=d))
            return
        clock = self._shop.clock
        began = math.inf if part.running else clock.now()
        verdict: bool | None = None
        for attempt in itertools.count(1):
            asked_at = clock.now() - began
            verdict = await self._ask(saga, duty.step, part, pair)
            if verdict or (verdict is False and asked_at >= pair.settle_s):
                break
            verdict = None
            if began == math.inf:
                now = part_of((await self._shop.log.load(saga.id)).step(number), part.id)
                if now is None or now.generation != part.generation or not undo_probed_now(now):
                    return
                began = math.inf if now.running else clock.now()
                await clock.sleep(PROBE_SCHEDULE.delay_s(attempt))
                continue
            left = max(self._shop.settings.probe_for_s, pair.settle_s) - (clock.now() - began)
            if left <= 0 and asked_at >= pair.settle_s:
                break
            await clock.sleep(max(0.0, min(PROBE_SCHEDULE.delay_s(attempt), left)))
        await self._shop.decide(saga.id, settling(duty.step, part, done=verdict))

    async def ask(self, saga: Saga, number: int) -> bool | None:
        """Ask once, for a person, whether the undo at hand took effect; None: there is no telling yet.

        A "no" is asked for again `settle_s` later, when what was on its way has landed, and never counts while the
        attempt may still be under way (S3.4).
        """
        step = saga.step(number)
        part = step.next_part
        if part is None:
            return None
        try:
            pair = await self._shop.pairs.of(step)
        except PairUnreadable:
            return None
        verdict = await self._ask(saga, step, part, pair)
        if verdict is False and not part.running:
            await self._shop.clock.sleep(pair.settle_s)
            return await self._ask(saga, step, part, pair) if pair.settle_s else verdict
        return None if verdict is False else verdict

    async def _ask(self, saga: Saga, step: Step, part: Part, pair: Pair) -> bool | None:
        """Whether the undo took effect; None: no verdict. A guard tells it too."""
        if is_elsewhere(step, self._shop.settings.host):
            return None
        entry = entry_of(pair, part)
        if entry is not None and entry.probe is not None:
            probe, context = entry.probe, context_of(self._shop, saga, step, part, entry)
            return await within(
                entry.timeout_s, lambda: self._shop.looks.probe_undo(probe, context), self._tasks, self._shop.clock
            )
        if pair.guard is None or begun(step):
            return None
        world = await self._witness.world(saga, step, pair)
        return None if isinstance(world, NotSeen) else _UNDONE[world]


def settling(step: Step, part: Part, *, done: bool | None) -> Decider:
    """What is appended once the probe of an undo has said this; nothing where that was sent again since."""
    asked = attempt_of(step, part)

    def decide(now: Saga, driving: Driving) -> tuple[Event, ...]:
        there = part_of(now.step(step.number), part.id)
        if there is None or attempt_of(now.step(step.number), there) != asked:
            return ()
        return undo_probed(now, step.number, part.id, done=done, driving=driving)

    return decide


def entry_of(pair: Pair, part: Part) -> UndoEntry | None:
    """The entry of the pair that the part comes from; None: the call registered it."""
    return pair.undo[part.spec.entry] if 0 <= part.spec.entry < len(pair.undo) else None


def context_of(shop: Workshop, saga: Saga, step: Step, part: Part, entry: UndoEntry | None) -> UndoContext:
    """What the undo of that entry, and whoever asks about it, is told."""
    return UndoContext(
        step=shop.known_facts(saga, step),
        undo_key=undo_key(saga.key_of(step.number), part.id, part.generation),
        cause=saga.cause,
        rules=None if entry is None else entry.rules,
        schema=None if entry is None else entry.schema,
    )


async def asked_by(shop: Workshop, step: Step, part: Part) -> tuple[Asked, ...]:
    """What a part calls, and who is asked before that: by its own read, and by the step's guard."""
    try:
        pair = await shop.pairs.of(step)
    except PairUnreadable:  # nothing is sent
        return ()
    entry = entry_of(pair, part)
    calls = [] if entry is None or entry.read is None else [entry.read]
    if pair.guard is not None and is_guarded(pair, step, part):
        looks = pair.guard.call or (None if pair.capture is None else pair.capture.call)
        calls += [] if looks is None else [looks]
    asked = (shop.catalogue.undoer(part.spec.tool), *(shop.catalogue.reader(call.tool) for call in calls))
    return tuple(each for each in asked if each is not None)


def is_guarded(pair: Pair, step: Step, part: Part) -> bool:
    """Whether the world is looked at before the part is sent."""
    return not (pair.guard is None or part.overwrite or part.registered or begun(step))


def begun(step: Step) -> bool:
    """Whether a part of the pair's undo has changed the world: what the guard compares with is gone."""
    return any(part.state is PartState.DONE and part.tries and not part.registered for part in step.parts or ())
