"""Asks whether an in-doubt step landed, until there is a verdict or no time left (SEMANTICS.md S3.4, S4.2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from anyio.abc import TaskGroup

from saga_mcp.domain.draft import Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.state import Saga
from saga_mcp.domain.step_decisions import Landing, probed_absent, probed_landed, probes_ended
from saga_mcp.engine.place import tool_of
from saga_mcp.engine.supervise import within
from saga_mcp.engine.witness import Left, Witness
from saga_mcp.engine.workshop import Decider, Workshop
from saga_mcp.tools.pair import Pair, PairUnreadable
from saga_mcp.tools.port import Absent, Landed, NoVerdict, ProbeVerdict, StepFacts, Tool
from saga_tools import Retry

PROBE_SCHEDULE = Retry(first_delay_s=0.5, max_delay_s=10.0)
"""How far apart the same question is asked."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a probe said, and what the step left behind, where it was found."""

    verdict: ProbeVerdict
    left: Left = field(default_factory=Left)
    attempts: int = 0
    """How often the step had been sent by then: of a later attempt it says nothing that was not found."""


def of_attempt(number: int, attempts: int, decide: Callable[[Saga, int, Driving], tuple[Event, ...]]) -> Decider:
    """Decide on a step after that many attempts of it; nothing where it was sent again since: that may have landed."""
    return lambda now, driving: decide(now, number, driving) if now.step(number).attempts == attempts else ()


class Probing:
    """Probes the forward actions that are in doubt."""

    def __init__(self, workshop: Workshop, tasks: TaskGroup) -> None:
        self._shop = workshop
        self._tasks = tasks
        self._witness = Witness(workshop, tasks)

    async def run(self, saga: Saga, number: int) -> None:
        """Probe one step, until a verdict is stored, or `probe_for_s` is over after its call has ended."""
        step = saga.step(number)
        try:
            pair = await self._shop.pairs.of(step)
        except PairUnreadable:  # how long an "absent" has to be waited for is not known
            await self._shop.decide(saga.id, lambda now, d: probes_ended(now, number, d))
            return
        tool, obstacle = tool_of(self._shop.catalogue, step, self._shop.settings.host)
        clock = self._shop.clock
        settle_s = pair.settle_s
        began = math.inf if step.running else clock.now()
        for attempt in itertools.count(1):
            asked_at = clock.now() - began
            asked = Asked(NoVerdict(error=obstacle)) if tool is None else await self._ask(tool, saga, number)
            match asked.verdict:
                case Landed():
                    await self._shop.decide(saga.id, self.settling(number, asked))
                    return
                # What is absent now may still land, until the call's end lies `settle_s` back (S3.4).
                case Absent() if asked_at >= settle_s:
                    await self._shop.decide(saga.id, self.settling(number, asked))
                    return
                case _:
                    pass
            if began == math.inf:
                now = (await self._shop.log.load(saga.id)).step(number)
                if not now.probe_due:
                    return
                began = math.inf if now.running else clock.now()
                await clock.sleep(PROBE_SCHEDULE.delay_s(attempt))
                continue
            left = self._shop.settings.probe_for_s - (clock.now() - began)
            if tool is None or (left <= 0 and asked_at >= settle_s):
                break
            wait = PROBE_SCHEDULE.delay_s(attempt)
            if isinstance(asked.verdict, Absent):
                wait = settle_s - (clock.now() - began)
            await clock.sleep(max(0.0, min(wait, max(left, settle_s - (clock.now() - began)))))
        await self._shop.decide(saga.id, of_attempt(number, step.attempts, probes_ended))

    async def ask(self, saga: Saga, number: int) -> Asked:
        """Ask once, for a person; an "absent" again `settle_s` later, when what was on its way has landed (S3.4)."""
        step = saga.step(number)
        tool, obstacle = tool_of(self._shop.catalogue, step, self._shop.settings.host)
        if tool is None:
            return Asked(NoVerdict(error=obstacle))
        asked = await self._ask(tool, saga, number)
        if not isinstance(asked.verdict, Absent):
            return asked
        if step.running:
            return Asked(NoVerdict(error="it has not happened so far, and its call has not ended"))
        settle_s = (await self._shop.pairs.of(step)).settle_s
        await self._shop.clock.sleep(settle_s)
        return await self._ask(tool, saga, number) if settle_s else asked

    def settling(self, number: int, asked: Asked) -> Decider:
        """What is appended once the probe of step `number` has said this."""
        match asked.verdict:
            case Landed() as found:
                return lambda now, d: probed_landed(now, number, self._landing(now, number, found, asked.left, d), d)
            case Absent():
                return of_attempt(number, asked.attempts, probed_absent)
            case NoVerdict():
                return lambda _now, _d: ()

    async def _ask(self, tool: Tool, saga: Saga, number: int) -> Asked:
        """Ask, and look at what was found; what somebody changes meanwhile is not taken for what the step left."""
        step = saga.step(number)
        facts = self._shop.facts(saga, step)
        try:
            pair = await self._shop.pairs.of(step)
        except PairUnreadable as unreadable:
            return Asked(NoVerdict(error=str(unreadable)), attempts=step.attempts)
        verdict = await self._said(tool, pair, facts)
        if not isinstance(verdict, Landed) or not pair.looks_after:
            return Asked(verdict, attempts=step.attempts)
        left = await self._witness.left(pair, replace(facts, result=verdict.result, known=verdict.known))
        return Asked(await self._said(tool, pair, facts), left, step.attempts)

    async def _said(self, tool: Tool, pair: Pair, facts: StepFacts) -> ProbeVerdict:
        probe = pair.probe

        async def ask() -> ProbeVerdict:
            return await (tool.probe(facts) if probe is None else self._shop.looks.probe(probe, facts))

        verdict = await within(pair.timeout_s, ask, self._tasks, self._shop.clock)
        return verdict or NoVerdict(error="the probe did not answer in time")

    def _landing(self, saga: Saga, number: int, found: Landed, left: Left, driving: Driving) -> Landing:
        """What a probe found; that a step landed may be known without its result."""
        if found.known:
            landing = self._shop.landing(saga, number, found, after=left.after)
        else:
            landing = Landing(result=None, undo=driving.bind(replace(saga.step(number), after=left.after)))
        return replace(landing, image=left.image, after=left.after)
