"""The outside world of a schedule: what stands in it, what is on its way, and what must never happen, seen as it does.

Every call is held against the log at the moment at which it is sent: whatever the engine believes, the database says
whether the intent was durable (DESIGN.md rules 1, 3, 5 and 10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
from tests.chaos.traits import TRAITS_OF_A_DAY
from tests.world.memory import MemoryDatabase

from saga_mcp.domain.attention import is_residue
from saga_mcp.domain.ids import undo_key
from saga_mcp.domain.state import Saga, Step
from saga_mcp.domain.values import OnUndoFailure, Phase, StepState
from saga_mcp.tools.port import CallContext, UndoContext

TICKS_S = 180.0
"""Between looks at what idles."""


class Fate:
    """Whether a process still lives, for whoever runs inside of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.died = anyio.Event()
        self.threads: set[anyio.CancelScope] = set()
        """What only the end of the process ends."""
        self.clients: set[anyio.CancelScope] = set()

    @property
    def dead(self) -> bool:
        return self.died.is_set()

    def die(self) -> None:
        self.died.set()
        for scope in self.threads:
            scope.shield = False
        for scope in self.clients:
            scope.cancel()

    async def left(self) -> None:
        """Return when nobody asks anything any more; in a real death, all are gone at once."""
        while self.clients:  # noqa: ASYNC110 - it is a moment of the schedule
            await anyio.sleep(0.001)

    @contextmanager
    def client(self) -> Generator[None]:
        """What somebody asks of the process ends with it."""
        with anyio.CancelScope() as scope:
            self.clients.add(scope)
            if self.dead:
                scope.cancel()
            try:
                yield
            finally:
                self.clients.discard(scope)

    async def alive(self) -> None:
        """Return if the process lives; a dead one does nothing any more."""
        if self.dead:
            await anyio.sleep_forever()


@dataclass
class Outside:
    """One outside world."""

    database: MemoryDatabase
    stands: dict[str, str] = field(default_factory=dict[str, str])
    """Effects that nothing has undone since: by name, which begins with their step's key, the step's key."""
    times: dict[str, int] = field(default_factory=dict[str, int])
    """How often each effect took place."""
    of_tags: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Keys of the steps that were sent for each agent's call."""
    flying: dict[str, Fate] = field(default_factory=dict[str, Fate])
    """Forward calls on their way, by the step's key."""
    undoing: dict[str, tuple[str, Fate]] = field(default_factory=dict[str, tuple[str, Fate]])
    """Undo calls on their way, by saga: the undo's key."""
    doubts: set[str] = field(default_factory=set[str])
    """Keys of calls that may have had an effect, as far as anybody but this world knows."""
    told: set[str] = field(default_factory=set[str])
    """Keys of steps of which a person has spoken."""
    late: set[str] = field(default_factory=set[str])
    """Keys of steps whose effect came after a person had spoken."""
    heard: list[tuple[str, Fate]] = field(default_factory=list[tuple[str, Fate]])
    """Keys of steps of which a process has the tool's word that they took effect."""
    far: Fate = field(default_factory=lambda: Fate("elsewhere"))
    """Of calls that nothing here ends."""
    down: dict[str, Sequence[tuple[float, float]]] = field(default_factory=dict[str, Sequence[tuple[float, float]]])
    """When each server is down."""
    moved_at: dict[str, float] = field(default_factory=dict[str, float])
    """When something last became of a step of each saga."""
    idle_flag_s: float = 0.0
    wall_ahead_s: float = 0.0
    """What the wall clock shows more than has passed."""
    problems: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])

    def note(self, line: str) -> None:
        self.lines.append(f"{anyio.current_time():9.3f} {line}")

    def must(self, condition: object, problem: str) -> None:
        if not condition:
            self.note(f"PROBLEM {problem}")
            self.problems.append(problem)

    def wall(self) -> float:
        """What the wall clock shows."""
        return 1_000_000.0 + anyio.current_time() + self.wall_ahead_s

    def stored(self, saga_id: str, names: Sequence[str]) -> None:
        """A saga has these events more; whoever is said to idle has been left alone for as long as that takes."""
        now = anyio.current_time()
        idle_s = now - self.moved_at.get(saga_id, now)
        for name in names:
            if name == "SagaIdled":
                self.must(idle_s >= self.idle_flag_s - TICKS_S, f"{saga_id[3:7]} idles after {idle_s:.0f} s")
            elif name.startswith(("Step", "Undo", "SagaOpened")):
                self.moved_at[saga_id] = now

    # --- servers that have the tools --------------------------------------------------------------------------------

    def is_down(self, upstream: str) -> bool:
        return any(since <= anyio.current_time() < until for since, until in self.down.get(upstream, ()))

    async def comes_up(self, upstream: str) -> None:
        while self.is_down(upstream):
            now = anyio.current_time()
            await anyio.sleep(min(until - now for _, until in self.down[upstream] if until > now))

    def far_away(self, key: str, after_s: float, *, lands: bool) -> None:
        """Let a call that has been sent come to its end, whatever becomes of whoever sent it."""
        self.flying[key] = self.far

        def end() -> None:
            self.flying.pop(key, None)
            if lands:
                self.effect(key, key)

        asyncio.get_running_loop().call_later(after_s, end)

    def undone_far_away(self, context: UndoContext, effect: str, after_s: float, *, lands: bool) -> None:
        """Likewise an undo."""
        saga_id, here = context.step.saga_id, (context.undo_key, self.far)
        self.undoing[saga_id] = here

        def end() -> None:
            if self.undoing.get(saga_id) == here:
                del self.undoing[saga_id]
            if lands:
                self.undone(effect)

        asyncio.get_running_loop().call_later(after_s, end)

    # --- forward actions ----------------------------------------------------------------------------------------------

    @contextmanager
    def forward(self, fate: Fate, tool: str, tag: str, context: CallContext, *, idempotent: bool) -> Generator[None]:
        """A call, from its first byte to its end."""
        key = context.key
        name = f"{tool}[{context.saga_id[3:7]}.{context.number}]"
        self.note(f"{fate.name} sends {name} {tag}")
        saga = self.database.heads.get(context.saga_id)
        step = saga.find_step(context.number) if saga else None
        # What a clock or a rule makes of the step between its intent and its first byte is no matter.
        durable = step is not None and step.running and step.attempts == context.attempt
        self.must(durable, f"{name} was sent without a durable intent")
        if step is not None:
            self._check_allowed(name, context.saga_id, step)
        self.must(not self._flies(key), f"{name} was sent again while it was on its way")
        self.must(idempotent or key not in self.doubts, f"{name} was sent again on a guess")
        self.of_tags.setdefault(tag, set()).add(key)
        self.doubts.add(key)
        self.flying[key] = fate
        try:
            yield
        finally:
            if self.flying.get(key) is fate:
                del self.flying[key]

    def _check_allowed(self, name: str, saga_id: str, step: Step) -> None:
        trait = TRAITS_OF_A_DAY[step.tool.removeprefix("t.")]
        self.must(step.approved or not trait.approval, f"{name} was sent and nobody had allowed it")
        if not trait.room:
            return
        for other in self.database.heads.values():
            holds = not other.final and other.id != saga_id
            users = [each for each in other.steps if holds and each.plan.resource == step.plan.resource]
            taken = [each for each in users if each.state is StepState.SUCCEEDED and self.landed(self.key(other, each))]
            self.must(not taken, f"{name} was sent while {other.id[3:7]} holds room {step.plan.resource}")

    def _flies(self, key: str) -> bool:
        fate = self.flying.get(key)
        return fate is not None and not fate.dead

    def effect(self, key: str, name: str) -> None:
        self.note(f"effect {name}")
        self.stands[name] = key
        self.times[name] = self.times.get(name, 0) + 1
        if key in self.told:
            self.late.add(key)

    def known_absent(self, key: str) -> None:
        """Somebody has been told for sure that this call did nothing."""
        self.doubts.discard(key)

    def landed(self, key: str) -> bool:
        return any(of == key for of in self.stands.values())

    # --- undos --------------------------------------------------------------------------------------------------------

    @contextmanager
    def undo(self, fate: Fate, effect: str, context: UndoContext, *, idempotent: bool) -> Generator[None]:
        """An undo call, from its first byte to its end."""
        key, saga_id = context.undo_key, context.step.saga_id
        name = f"undo {context.step.tool}[{saga_id[3:7]}.{context.step.number}] of {effect}"
        self.note(f"{fate.name} sends {name} {key[-5:]}")
        saga = self.database.heads[saga_id]
        step = saga.step(context.step.number)
        self._check_intent(name, saga, step, key)
        called = context.step.key
        self.must(not self._flies(called) or called in self.told, f"{name} overtook its call")
        self._check_calls(name, saga)
        self._check_order(name, saga, step)
        before = self.undoing.get(saga_id)
        self.must(before is None or before[1].dead, f"{name} was sent beside another undo")
        self.must(idempotent or key not in self.doubts, f"{name} was sent again on a guess")
        self.doubts.add(key)
        self.undoing[saga_id] = (key, fate)
        try:
            yield
        finally:
            if self.undoing.get(saga_id) == (key, fate):
                del self.undoing[saga_id]

    def undone(self, effect: str) -> None:
        self.note(f"undone {effect}" if effect in self.stands else f"nothing to undo of {effect}")
        self.stands.pop(effect, None)

    def _check_intent(self, name: str, saga: Saga, step: Step, key: str) -> None:
        part = next((part for part in step.parts or () if part.running), None)
        fits = part is not None and undo_key(key.split(".u", maxsplit=1)[0], part.id, part.generation) == key
        self.must(saga.undoing == step.number and fits, f"{name} was sent without a durable intent of that key")
        self.must(saga.phase is Phase.COMPENSATING, f"{name} was sent in a saga that is {saga.phase}")

    def _check_calls(self, name: str, saga: Saga) -> None:
        for other in saga.steps:
            loose = other.overdue or other.vouched or other.state is StepState.EXEMPT
            self.must(loose or not self._flies(self.key(saga, other)), f"{name} did not wait for step {other.number}")

    def _check_order(self, name: str, saga: Saga, step: Step) -> None:
        """What ended before another step started is undone after it (S5.2)."""
        if saga.on_undo_failure is not OnUndoFailure.HALT:
            return
        for other in saga.steps:
            if other.intent_seq > step.order and self.landed(self.key(saga, other)):
                kept = other.state is StepState.EXEMPT or other.late or is_residue(other)
                self.must(kept or self.key(saga, other) in self.late, f"{name} came before that of step {other.number}")

    def check_final(self, saga: Saga) -> None:
        """What an ended saga says, held against what stands (DESIGN.md rule 4)."""
        self.must(saga.final, f"{saga.id[3:7]} ended as {saga.phase}")
        for step in saga.steps:
            key = self.key(saga, step)
            name = f"step {step.number} {step.tool} of {saga.id[3:7]}"
            self.must(step.state is not StepState.AWAITING_APPROVAL, f"{name} waits in a saga that is {saga.phase}")
            if step.state is StepState.EXEMPT or step.late:
                continue
            if saga.phase is Phase.COMMITTED and step.state is StepState.SUCCEEDED:
                self.must(key in self.stands, f"{name} is committed and does not stand")
            elif not is_residue(step):
                self.must(not self.landed(key), f"{name} is {step.state} and stands, its saga is {saga.phase}")

    # --- a person's view ----------------------------------------------------------------------------------------------

    @staticmethod
    def key(saga: Saga, step: Step) -> str:
        return saga.key_of(step.number)

    def quiet(self) -> bool:
        """Whether nothing is on its way in any living process."""
        calls = [*self.flying.values(), *(fate for _, fate in self.undoing.values())]
        return all(fate.dead for fate in calls)
