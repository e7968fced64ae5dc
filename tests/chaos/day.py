"""A day of three agents, each with a server of its own over one log, and of the people who look after them.

Servers are killed and come back, upstreams and the log are down for minutes, clocks jump, sagas are forgotten, and now
and then a person settles something. In the evening all is well, and everything must come to an end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import anyio
from tests.chaos.person import Person
from tests.chaos.process import Process, Weather
from tests.chaos.schedule import NOT_SENT, Run, Schedule, judged
from tests.chaos.traits import TRAITS_OF_A_DAY, UPSTREAMS, Trait

from saga_mcp.domain.attention import items
from saga_mcp.domain.values import OnIdle
from saga_mcp.engine.port import EngineSettings
from saga_mcp.log.port import AppendUnsettled

DAY_S = 24 * 3600.0
AGENTS = 3
THOUGHTS_S = (0.1, 5.0, 300.0, 600.0, 1800.0)
"""How long an agent may take for its next call."""
Spans = Sequence[tuple[float, float]]


@dataclass
class Day(Schedule):
    traits: Mapping[str, Trait] = field(default_factory=lambda: TRAITS_OF_A_DAY)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.evening = False
        self.over = False
        self.serving: dict[int, Process] = {}
        """The server that each agent has right now."""
        self.outside.idle_flag_s = self.machine.settings.idle_flag_s

    def _settings(self) -> EngineSettings:
        dice = self.dice
        flag_s = dice.choice([1800.0, 3600.0])
        return replace(
            super()._settings(),
            recovery_every_s=dice.choice([5.0, 60.0]),
            idle_flag_s=flag_s,
            idle_end_s=flag_s * dice.choice([1, 3]),
            on_idle=dice.choice(list(OnIdle)),
            approval_expires_s=dice.choice([600.0, 7200.0, 86400.0]),
        )

    async def run(self) -> None:
        for upstream in UPSTREAMS:
            self.outside.down[upstream] = self._spans(4, longest_s=1800.0)
        async with anyio.create_task_group() as life:
            for number in range(AGENTS):
                life.start_soon(self._serve, number)
            async with anyio.create_task_group() as day:
                for number in range(AGENTS):
                    day.start_soon(self._agent_of_a_day, number)
                day.start_soon(self._people)
                day.start_soon(self._wall_clock)
                await anyio.sleep(DAY_S)
                day.cancel_scope.cancel()
            self.evening = True
            self.outside.note("evening")
            await self._all_is_well()
            living = [process for process in self.serving.values() if not process.fate.dead]
            for saga_id in list(self.machine.database.heads):
                await self._end(self.dice.choice(living), living, saga_id)
            self._count([process.fate for process in living])
            self.over = True
            for process in living:
                process.fate.die()

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _spans(self, most: int, *, longest_s: float) -> Spans:
        """Times of the day, some minutes long."""
        starts = [self.dice.uniform(0, DAY_S) for _ in range(self.dice.randint(0, most))]
        return tuple((start, start + self.dice.uniform(1, longest_s)) for start in starts)

    def _weather(self) -> Weather:
        dice = self.dice
        return Weather(
            random.Random(dice.random()),  # noqa: S311 - a test
            faulty=dice.choice([0.0, 0.0, 0.02]),
            down=self._spans(3, longest_s=600.0),
            full=self._spans(3, longest_s=600.0),
            dies_at=dice.choice([0, dice.randint(1, 200)]),
            dies_stored=dice.random() < 0.5,
            dies_in_call=dice.choice([0, dice.randint(1, 60)]),
        )

    async def _wall_clock(self) -> None:
        """Somebody, or the network, sets it."""
        while True:
            await anyio.sleep(self.dice.uniform(3600, 6 * 3600))
            self.outside.wall_ahead_s += self.dice.choice([-3600.0, 3600.0])
            self.outside.note(f"the wall clock jumps: {self.outside.wall_ahead_s:+.0f} s by now")

    async def _serve(self, number: int) -> None:
        """A server, and the next one after its end, until all is over."""
        while not self.over:
            process = self.machine.process(self._weather())
            async with anyio.create_task_group() as life:
                life.start_soon(process.live)
                await process.ready.wait()
                self.serving[number] = process
                if self.evening:
                    self._goes_well(process)
                with anyio.move_on_after(self.dice.uniform(600, 6 * 3600)):
                    await process.fate.died.wait()
                if self.evening:
                    await process.fate.died.wait()
                await self._stop(process)
            await anyio.sleep(self.dice.choice([0.1, 5.0, 600.0]) * self.dice.random())

    async def _stop(self, process: Process) -> None:
        """Its client closes it, or it is killed."""
        if not process.fate.dead and self.dice.random() < 0.5:
            self.outside.note(f"{process.fate.name} is closed")
            await process.engine.drain(self.dice.uniform(0, 10))
        self.outside.note(f"{process.fate.name} ends")
        process.fate.die()

    @staticmethod
    def _goes_well(process: Process) -> None:
        process.log.clear_up()
        process.chance.dies_at = 0

    async def _all_is_well(self) -> None:
        self.outside.down.clear()
        for process in self.serving.values():
            self._goes_well(process)
        await anyio.sleep(900)  # what is on its way down comes up again
        for number, process in self.serving.items():
            self.outside.must(not process.fate.dead, f"server {number} is not there in the evening")

    # --- agents and people --------------------------------------------------------------------------------------------

    async def _agent_of_a_day(self, number: int) -> None:
        while True:
            await anyio.sleep(self.dice.choice(THOUGHTS_S) * self.dice.random())
            process = self.serving.get(number)
            if process is not None and not process.fate.dead:
                with process.fate.client():
                    await self._turn(process)

    def _one_of(self, sagas: Sequence[str]) -> str:
        """Mostly one that is still open; agents remember the last ones best."""
        heads = self.machine.database.heads
        unended = [saga_id for saga_id in sagas if saga_id not in heads or not heads[saga_id].final]
        return self.dice.choice(unended[-6:] if unended and self.dice.random() < 0.95 else sagas)

    async def _people(self) -> None:
        person = Person(self.dice, self.outside)
        while True:
            await anyio.sleep(self.dice.choice([60.0, 1200.0]) * self.dice.random())
            waiting = [(saga, item) for saga in self.machine.database.heads.values() for item in items(saga)]
            living = [process for process in self.serving.values() if not process.fate.dead]
            if not waiting or not living:
                continue
            saga, item = self.dice.choice(waiting)
            process = self.dice.choice(living)
            with process.fate.client(), suppress(*NOT_SENT, AppendUnsettled):
                await person.settle(process.engine, saga, item)


def run_day(seed: int) -> Run:
    """Run the day of `seed`."""
    return judged(Day(seed), "tests/chaos/test_days.py -k one_day_alone")
