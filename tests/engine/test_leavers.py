"""Whoever asks for something may leave at any moment: what is stored by then goes on, what is not never was.

Each entry of the engine is cancelled at each of its waits in turn, in three ways; the server lives on. The saga must
come to rest by itself, be ended as ever, and say what the outside world says (DESIGN.md rule 6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup
from tests.engine.entries import ASKING, ENTRIES, LAST, Entry, Scene
from tests.engine.test_hosts import of
from tests.world.asking import asking
from tests.world.leaving import Leaving, leaves
from tests.world.reading import READS, UNDOES, World
from tests.world.scans import CountedScans
from tests.world.server import Server, eventually, served

from saga_mcp.domain.attention import items
from saga_mcp.domain.duties import busy
from saga_mcp.domain.errors import CommitRefused, PivotPassed, Refused
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase, StepState
from saga_mcp.log.port import SagaLog
from saga_mcp.tools.declared import DeclaredRegistry

RESTS_WITHIN_S = 5.0
MOST_WAITS = 60
HAPPENED = {
    StepState.AWAITING_APPROVAL: {(0, 0)},
    StepState.CANCELLED: {(0, 0)},
    StepState.FAILED: {(0, 0)},
    StepState.SUCCEEDED: {(1, 0)},
    StepState.COMPENSATED: {(1, 1)},
    StepState.IN_DOUBT: {(0, 0), (1, 0)},
    StepState.EXEMPT: {(0, 0), (1, 0)},
}
"""How often a step's effect took place and was undone, in each state at rest."""


@asynccontextmanager
async def machine(name: str, database: Path, *, scans: bool = True) -> AsyncGenerator[Server]:
    """A server of a machine, or without a name of none; what is not seen to at once waits there for a scan, if any."""

    def adjust(declared: DeclaredRegistry) -> DeclaredRegistry:
        return asking(of=ASKING)(of(name)(declared))

    counted: list[CountedScans] = []

    def wrap(log: SagaLog) -> SagaLog:
        counted.append(CountedScans(log))
        return counted[0]

    every_s = 0.05 if scans else 3600.0
    async with served(
        database, adjust=adjust, host=name, wrap=wrap, probe_for_s=1.0, audit_reads=True, recovery_every_s=every_s
    ) as server:
        await eventually(lambda: counted[0].looked > 0)  # without scans the only one, at the start
        yield server


async def rests(server: Server, saga_id: str) -> Saga:
    """The state once nothing of the saga runs or is due any more; nobody helps."""

    async def at_rest() -> bool:
        return not busy(await server.log.load(saga_id))

    with anyio.fail_after(RESTS_WITHIN_S):
        await eventually(at_rest)
    return await server.log.load(saga_id)


def differs(world: World, sagas: Iterable[Saga]) -> list[str]:
    """Where the outside world is not as the sagas say, each of them at rest."""
    done, undone = Counter[str](), Counter[str]()
    for line in world.did():
        if line.tool not in READS:
            (undone if line.tool in UNDOES else done)[line.key] += 1
    found: list[str] = []
    for saga in sagas:
        for step in saga.steps:
            if saga.handed_to(step.number):
                continue
            key = saga.key_of(step.number)
            was = done.pop(key, 0), undone.pop(key, 0)
            by_hand = step.tool == "ledger.post" and step.state is StepState.COMPENSATED
            if was not in HAPPENED.get(step.state, set()) and not by_hand:
                found.append(f"{saga.id}.{step.number} {step.tool} {step.state}: done {was[0]}, undone {was[1]}")
        if saga.phase is Phase.COMPENSATING and not items(saga):
            found.append(f"{saga.id} is {saga.phase}, and nobody is asked")
    return [*found, *(f"no step has {key}" for key in (*done, *undone))]


def states_of(saga: Saga, tool: str) -> list[StepState]:
    """Of the steps of a tool that were asked for, besides those that made the scene."""
    return [
        step.state for step in tuple(saga.steps)[0 if saga.implicit else LAST - 1 :] if step.tool == f"ledger.{tool}"
    ]


async def all_sagas(server: Server) -> list[Saga]:
    return [await rests(server, row.id) for row in await server.log.sagas("ledger", limit=1000)]


async def end(server: Server, saga_id: str, *, keep: bool) -> None:
    """End it as its agent would; what hinders that has to be listed."""
    saga = await rests(server, saga_id)
    if saga.phase is Phase.ACTIVE and keep:
        with suppress(CommitRefused):
            saga = await server.commit(saga_id)
    elif saga.phase is Phase.ACTIVE:
        try:
            saga = await server.abort(saga_id)
        except PivotPassed:
            saga = await server.commit(saga_id)
        saga = await rests(server, saga_id)
    assert saga.final or items(saga), f"{saga_id} is {saga.phase}, and nobody is asked"


@dataclass(frozen=True)
class Sweep:
    """What is asked, how its caller leaves, and of whom it is asked."""

    entry: Entry
    how: Leaving
    there: Server
    here: Server
    world: World
    sibling: bool = False
    """Another call of the saga is running then, where the saga takes calls."""

    async def run(self) -> None:
        """Let the caller leave at each wait in turn, until it comes to an end without that."""
        for nth in range(1, MOST_WAITS):
            scene = Scene(self.there, self.here, self.world, nth)
            async with anyio.create_task_group() as others:
                if not await self._asked(scene, others):
                    break
        else:
            pytest.fail(f"{self.entry.name} waits more than {MOST_WAITS} times")
        assert differs(self.world, await all_sagas(self.here)) == []

    async def _asked(self, scene: Scene, others: TaskGroup) -> bool:
        entry, here = self.entry, self.here
        saga_id = await entry.before(scene) if entry.before is not None else ""
        known = {row.id for row in await here.log.sagas("ledger", limit=1000)} - {saga_id}
        if self.sibling and saga_id:
            await self._sibling(saga_id, others)

        async def ask() -> None:
            with suppress(Refused):
                await entry.ask(scene, saga_id)

        with anyio.fail_after(RESTS_WITHIN_S):
            left = await leaves(ask(), scene.nth, self.how)
        if not await here.log.paused("ledger"):
            await all_sagas(here)
        again = left and (scene.nth % 2 or await here.log.paused("ledger"))
        if again:
            await ask()
        sagas = [saga for saga in await all_sagas(here) if saga.id not in known]
        if again and entry.once:
            assert [state for saga in sagas for state in states_of(saga, entry.once)] == [StepState.SUCCEEDED]
        for saga in sagas:
            await end(here, saga.id, keep=scene.nth % 4 < 2)
        return left

    async def _sibling(self, saga_id: str, others: TaskGroup) -> None:
        if (await self.here.engine.saga(saga_id)).phase is not Phase.ACTIVE:
            return
        sent, refused = len(self.world.sent("charge")), anyio.Event()

        async def call() -> None:
            try:
                await self.there.call("charge", saga_id, cents=9, mode="0.03")
            except Refused:  # after a point of no return
                refused.set()

        others.start_soon(call)
        await eventually(lambda: refused.is_set() or len(self.world.sent("charge")) > sent)


ALL = [pytest.param(entry, how, id=f"{entry.name}-{how.value}") for entry in ENTRIES for how in Leaving]
EVERYDAY = [
    pytest.param(entry, Leaving.UNTOLD, id=entry.name)
    for entry in ENTRIES
    if not entry.name.startswith("call-") or entry.name in {"call-from-afar", "call-in-doubt"}
]
OF_MACHINES = [pytest.param(*each.values, id=each.id) for each in EVERYDAY if each.id in {"abort", "revert", "approve"}]


@pytest.mark.parametrize(("entry", "how"), EVERYDAY)
async def test_a_caller_may_leave_at_any_moment_and_what_is_due_begins_at_once(
    entry: Entry, how: Leaving, world: World, database: Path
) -> None:
    async with machine("", database, scans=False) as server:
        await Sweep(entry, how, server, server, world).run()


@pytest.mark.parametrize(("entry", "how"), OF_MACHINES)
async def test_a_caller_may_leave_at_any_moment_what_another_machine_has_begun(
    entry: Entry, how: Leaving, world: World, database: Path
) -> None:
    async with machine("a", database) as there, machine("b", database) as here:
        await Sweep(entry, how, there, here, world).run()


@pytest.mark.slow
@pytest.mark.parametrize(("entry", "how"), ALL)
async def test_a_caller_may_leave_in_every_way_and_what_is_due_begins_at_once(
    entry: Entry, how: Leaving, world: World, database: Path
) -> None:
    async with machine("", database, scans=False) as server:
        await Sweep(entry, how, server, server, world).run()


@pytest.mark.slow
@pytest.mark.parametrize("sibling", [False, True], ids=["alone", "beside-a-call"])
@pytest.mark.parametrize(("entry", "how"), ALL)
async def test_a_caller_may_leave_in_every_way_what_another_machine_has_begun(
    entry: Entry, how: Leaving, *, sibling: bool, world: World, database: Path
) -> None:
    async with machine("a", database) as there, machine("b", database) as here:
        await Sweep(entry, how, there, here, world, sibling).run()
