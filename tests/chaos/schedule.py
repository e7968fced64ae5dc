"""One schedule: two processes, their agents and all that goes wrong, drawn from one seed; then all is counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import anyio
from structlog.processors import format_exc_info
from structlog.testing import capture_logs
from tests.chaos.outside import Fate, Outside
from tests.chaos.person import Person
from tests.chaos.process import Machine, Process, Weather
from tests.chaos.traits import ROOMS, TRAITS, Trait
from tests.chaos.virtual_time import NothingLeftToHappen, run_in_virtual_time

from saga_mcp.domain.attention import items
from saga_mcp.domain.errors import LogConflict, LogUnavailable, Refused
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import JsonObject, Kind, OnError, OnUndoFailure, Phase, StepState
from saga_mcp.engine.port import Caller, EngineSettings
from saga_mcp.log.port import AppendUnsettled
from saga_mcp.tools.unsent import UpstreamDown

ME = Caller()
NOT_SENT = (Refused, LogUnavailable, LogConflict, UpstreamDown)
BUGS = frozenset(
    {
        "driving_failed",
        "recovery_failed",
        "recovery_scan_failed",
        "watch_failed",
        "idle_watch_failed",
        "question_watch_failed",
        "stranded_look_failed",
        "undo_end_not_recorded",
        "attempts_stranded",
    }
)
"""What the engine says of itself where it met something that no rule foresees."""


@dataclass(frozen=True)
class Call:
    saga_id: str | None
    tool: str
    tag: str
    step_key: str
    caller: Caller = ME
    room: str = ""

    @property
    def arguments(self) -> JsonObject:
        return {"tag": self.tag, "room": self.room} if self.room else {"tag": self.tag}


@dataclass
class Schedule:
    seed: int
    traits: Mapping[str, Trait] = field(default_factory=lambda: TRAITS)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 - a test
        dice = self.dice
        self.machine = Machine(dice, self._settings(), trouble=dice.choice([0.1, 0.5, 1.0]))
        self.first = [name for name, trait in self.traits.items() if trait.kind is not Kind.RETRIABLE]
        self.after_pivot = [
            name for name, trait in self.traits.items() if trait.kind in {Kind.RETRIABLE, Kind.READ_ONLY}
        ]
        self.sagas: list[str] = []
        self.calls: list[Call] = []
        self.heard: set[str] = set()
        """Tags of calls whose answer an agent has."""
        self.made_anew: set[str] = set()
        """Tags of calls that were made again and are no repeats (S8.3): a new effect is due."""
        self.times_asked = Counter[str]()
        self.senders: dict[str, set[str]] = {}
        """Processes that were asked for each tag."""
        self.unheard: dict[str, list[Call]] = {}
        """What each process was asked for and has not answered: what agents ask again."""

    def _settings(self) -> EngineSettings:
        dice = self.dice
        return EngineSettings(
            realm="chance",
            on_error=dice.choice(list(OnError)),
            on_undo_failure=dice.choice([OnUndoFailure.HALT, OnUndoFailure.HALT, OnUndoFailure.CONTINUE]),
            reply_within_s=3.0,
            probe_for_s=dice.choice([0.0, 2.0, 4.0]),
            recovery_every_s=5.0,
        )

    @property
    def outside(self) -> Outside:
        return self.machine.outside

    async def run(self) -> None:
        dice = self.dice
        processes = [self.machine.process(self._weather()) for _ in range(2)]
        async with anyio.create_task_group() as life:
            for process in processes:
                life.start_soon(process.live)
                await process.ready.wait()
            async with anyio.create_task_group() as agents:
                for number in range(dice.randint(1, 3)):
                    agents.start_soon(self._agent, processes[number % 2])
                if dice.random() < 0.3:
                    agents.start_soon(self._kill, dice.choice(processes), dice.uniform(0, 8))
            for process in processes:
                process.log.clear_up()
                process.chance.dies_at = 0
            if dice.random() < 0.3:
                for process in processes:
                    process.fate.die()
            living = [process for process in processes if not process.fate.dead]
            if not living:
                living = [self.machine.process(Weather(random.Random(dice.random())))]  # noqa: S311 - a test
                life.start_soon(living[0].live)
                await living[0].ready.wait()
            for saga_id in list(self.machine.database.heads):  # also what nobody learned that it was opened
                await self._end(dice.choice(living), living, saga_id)
            self._count([process.fate for process in living if not process.fate.dead])
            for process in living:
                process.fate.die()

    def _weather(self) -> Weather:
        dice = self.dice
        weather = Weather(random.Random(dice.random()))  # noqa: S311 - a test
        if dice.random() < 0.4:
            weather.faulty = dice.choice([0.02, 0.1])
        if dice.random() < 0.2:
            since = dice.uniform(0, 6)
            weather.down = ((since, since + dice.uniform(0.1, 6)),)
        if dice.random() < 0.3:
            weather.dies_in_call = dice.randint(1, 12)
        if dice.random() < 0.3:
            weather.dies_at, weather.dies_stored = dice.randint(1, 25), dice.random() < 0.5
        return weather

    async def _kill(self, process: Process, after_s: float) -> None:
        await anyio.sleep(after_s)
        self.outside.note(f"{process.fate.name} is killed")
        process.fate.die()

    # --- agents -------------------------------------------------------------------------------------------------------

    async def _agent(self, process: Process) -> None:
        with process.fate.client():
            for _ in range(self.dice.randint(2, 7)):
                await anyio.sleep(self.dice.choice([0.0, 0.05, 0.5]) * self.dice.random())
                await self._turn(process)

    async def _turn(self, process: Process) -> None:
        """One thing that an agent asks for; sometimes it does not wait for the answer."""
        work = self._work(process)
        with anyio.move_on_after(self.dice.uniform(0, 3) if self.dice.random() < 0.2 else 60):
            await work()

    def _one_of(self, sagas: Sequence[str]) -> str:
        return self.dice.choice(sagas)

    def _work(self, process: Process) -> Callable[[], Awaitable[object]]:
        dice, engine = self.dice, process.engine
        if not self.sagas or dice.random() < 0.05:
            return partial(self._begin, process)
        unheard = self.unheard.get(process.fate.name)
        if unheard and dice.random() < 0.5:
            return partial(self._call, process, dice.choice(unheard), again=True)
        saga_id = self._one_of(self.sagas)
        what = dice.random()
        if what < 0.06:
            failed = self._failed(saga_id) if dice.random() < 0.7 else ()
            return partial(self._asked, partial(engine.commit, saga_id, by="agent", accept_failed=failed))
        if what < 0.12:
            return partial(self._asked, partial(engine.abort, saga_id, cause="agent"))
        if what < 0.18:
            return partial(self._asked, partial(engine.savepoint, saga_id, "mark"))
        if what < 0.24:
            return partial(self._asked, partial(engine.abort, saga_id, cause="agent", to_savepoint="mark"))
        if what < 0.34 and self.calls:
            return partial(self._call, process, dice.choice(self.calls), again=True)
        head = self.machine.database.heads.get(saga_id)
        tool = dice.choice(self.after_pivot if head and head.pivot and dice.random() < 0.8 else self.first)
        number = len(self.calls)
        step_key = f"k{number}" if dice.random() < 0.3 else ""
        named = saga_id if step_key or dice.random() < 0.75 else None
        caller = ME if named or dice.random() < 0.2 else Caller(conversation=f"chat{number}")
        room = str(dice.randrange(ROOMS)) if self.traits[tool].room else ""
        call = Call(named, tool, f"c{number}", step_key, caller, room)
        self.calls.append(call)
        return partial(self._call, process, call, again=False)

    def _failed(self, saga_id: str) -> tuple[int, ...]:
        head = self.machine.database.heads.get(saga_id)
        return tuple(step.number for step in head.steps if step.state is StepState.FAILED) if head else ()

    async def _begin(self, process: Process) -> None:
        with suppress(*NOT_SENT, AppendUnsettled):
            self.sagas.append((await process.engine.begin(ME)).id)

    async def _asked(self, ask: Callable[[], Awaitable[Saga]]) -> None:
        with suppress(*NOT_SENT, AppendUnsettled):
            await ask()

    def _note_if_gone_on(self, call: Call) -> None:
        """A call without `saga_id` is no repeat once the saga that it opened is more than that call (S8.3)."""
        if call.saga_id is not None:
            return
        for head in self.machine.database.heads.values():
            tags = {str(step.plan.args.get("tag")) for step in head.steps}
            if call.tag in tags and (len(tags) > 1 or head.phase is not Phase.ACTIVE):
                self.made_anew.add(call.tag)

    async def _call(self, process: Process, call: Call, *, again: bool) -> None:
        outside = self.outside
        senders = self.senders.setdefault(call.tag, set())
        senders.add(process.fate.name)
        self.times_asked[call.tag] += 1
        nameless = call.saga_id is None and not call.caller.conversation
        if not call.step_key and (call.tag in self.heard or len(senders) > 1 or (again and nameless)):
            self.made_anew.add(call.tag)  # a process knows only of its own replies
        self._note_if_gone_on(call)
        unheard = self.unheard.setdefault(process.fate.name, [])
        if call not in unheard:
            unheard.append(call)
        try:
            reply = await process.engine.call(
                call.tool, call.arguments, saga_id=call.saga_id, step_key=call.step_key, caller=call.caller
            )
        except NOT_SENT as error:
            outside.note(f"{process.fate.name} refuses {call.tag}: {type(error).__name__}")
            alone = self.times_asked[call.tag] == 1  # else it may be another of its sendings that was sent
            outside.must(not alone or call.tag not in outside.of_tags, f"{call.tag} was refused and sent")
            return
        finally:
            self._note_if_gone_on(call)  # which may have been meanwhile
        outside.note(
            f"{process.fate.name} answers {call.tag}: {reply.code or 'ok'}{' again' if reply.replayed else ''}"
        )
        if reply.answer is not None:
            if call in unheard:
                unheard.remove(call)
            self.heard.add(call.tag)
        if reply.saga is not None and reply.saga.id not in self.sagas:
            self.sagas.append(reply.saga.id)
        if reply.code == "" and reply.saga is not None:
            key = outside.key(reply.saga, reply.saga.step(reply.step))
            outside.must(key in outside.times, f"{call.tag} was answered with success and had no effect")

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _end(self, process: Process, living: list[Process], saga_id: str) -> None:
        """Let the saga come to rest, with a person's help, and end it."""
        engine, person = process.engine, Person(self.dice, self.outside)
        for turn in range(20):
            for each in living:
                each.chance.calm = turn > 1
            impatient = turn < 6 and self.dice.random() < 0.3
            with anyio.move_on_after(self.dice.uniform(0, 20) if impatient else 600) as wait:
                await engine.rest(saga_id)
            saga = self.machine.database.heads[saga_id]
            if wait.cancelled_caught and not impatient:
                if any(step.approved and step.state is StepState.AWAITING_APPROVAL for step in saga.steps):
                    await engine.abort(saga_id, cause="agent")  # it wants what another saga holds
                    continue
                self.outside.must(condition=False, problem=f"{saga_id[3:7]} never came to rest")
                return
            waiting = items(saga)
            if waiting:
                with suppress(*NOT_SENT):
                    await person.settle(engine, saga, self.dice.choice(waiting))
            elif saga.final and not wait.cancelled_caught:
                return
            else:
                await self._ask_for_an_end(process, saga_id)
        self.outside.must(condition=False, problem=f"{saga_id[3:7]} came to no end")

    async def _ask_for_an_end(self, process: Process, saga_id: str) -> None:
        engine = process.engine
        if self.dice.random() < 0.5:
            with suppress(Refused):
                await engine.abort(saga_id, cause="agent")
                return
        with suppress(Refused):
            await engine.commit(saga_id, by="agent", accept_failed=self._failed(saga_id))
            return
        with suppress(Refused):
            await engine.abort(saga_id, cause="agent")

    def _count(self, survivors: list[Fate]) -> None:
        outside, heads = self.outside, self.machine.database.heads
        recorded = {outside.key(saga, step): step for saga in heads.values() for step in saga.steps}
        for name, times in outside.times.items():
            step = recorded.get(name.split("/", maxsplit=1)[0])
            outside.must(step is not None, f"effect {name} belongs to no step")
            outside.must(times == 1 or (step and step.plan.idempotent), f"effect {name} took place {times} times")
        for key, fate in outside.heard:
            known = key in recorded and recorded[key].landed
            outside.must(known or fate not in survivors, f"step {key} answered, which nobody has recorded")
        for saga in heads.values():
            outside.check_final(saga)
        for call in self.calls:
            keys = outside.of_tags.get(call.tag, set[str]())
            if call.tag not in self.made_anew and not any(recorded[key].state is StepState.EXEMPT for key in keys):
                standing = sum(outside.landed(key) for key in keys)
                outside.must(standing <= 1, f"{call.tag} took effect {standing} times for one call")


@dataclass(frozen=True)
class Run:
    """What came of a seed."""

    seed: int
    alone: str
    problems: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def told(self) -> str:
        """What happened, what was wrong with it, and how to see it again."""
        again = f"SEED={self.seed} scripts/test {self.alone}"
        return "\n".join([*self.lines, *self.problems, f"To run this schedule alone: {again}"])


def run(seed: int) -> Run:
    """Run the schedule of `seed`."""
    return judged(Schedule(seed), "tests/chaos/test_schedules.py -k one_seed_alone")


def judged(schedule: Schedule, alone: str) -> Run:
    """Run a schedule, and hear what was wrong; `alone` names the test that runs it again."""
    seed = schedule.seed
    ids = random.Random(seed)  # noqa: S311 - a test
    logged: list[MutableMapping[str, Any]] = []
    try:
        with capture_logs(processors=[format_exc_info]) as logged, patch("secrets.token_bytes", ids.randbytes):
            run_in_virtual_time(schedule.run)
    except NothingLeftToHappen:
        schedule.outside.problems.append("everybody waits for ever")
    problems = [
        *schedule.outside.problems,
        *(f"{line['event']}: {line.get('exception', line)}" for line in logged if line["event"] in BUGS),
    ]
    return Run(seed, alone, tuple(problems), tuple(schedule.outside.lines))
