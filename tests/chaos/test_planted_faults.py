"""Faults planted in the engine, each of which the schedules must catch: a judge that never condemns proves nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
from tests.chaos.schedule import run

from saga_mcp.domain import on_saga, repeats, rollback, saga_decisions, step_decisions, takeover, undo_decisions
from saga_mcp.domain.draft import Draft, Driving
from saga_mcp.domain.errors import SagaError
from saga_mcp.domain.events import Event, StepPlan
from saga_mcp.domain.living import Life
from saga_mcp.domain.machine import fold
from saga_mcp.domain.rollback import Readiness
from saga_mcp.domain.state import Part, Saga, Step
from saga_mcp.domain.step_decisions import Miss
from saga_mcp.domain.undo_decisions import UndoMiss
from saga_mcp.domain.values import Effect, JsonObject, PartState, StepState
from saga_mcp.engine import forward, probing, undo_probing, undoing
from saga_mcp.engine.first_turn import FirstTurns
from saga_mcp.engine.workshop import Workshop
from saga_mcp.log.port import Decided, Decision
from saga_mcp.tools.port import Absent, NoVerdict, UndoContext, Undoer, UndoMissed, Undone, UndoOutcome

SEEDS = 400
"""Among so many the first one that catches a fault must be."""

Planting: TypeAlias = Callable[[], AbstractContextManager[object]]


def intent_after_the_call() -> AbstractContextManager[object]:
    """What is to be sent is not waited for to be durable."""
    decide = Workshop.decide
    bind = Workshop._bind  # pyright: ignore[reportPrivateUsage]  # the fault is planted inside
    tasks: set[asyncio.Task[None]] = set()

    async def hasty(self: Workshop, saga_id: str, decider: Any, *, pairs: Any = (), **more: Any) -> Decided:  # noqa: ANN401 - passed on
        if not pairs:  # only a forward action's intent freezes a pair
            return await decide(self, saga_id, decider, **more)
        known: list[Decided] = []

        def look(saga: Saga) -> Decision:
            events = decider(saga, Driving(self.driver, partial(bind, self, saga)))
            known[:] = [Decided(before=saga, saga=fold(saga, events))]
            return Decision()

        await self.log.decide(saga_id, look)

        async def store() -> None:
            with suppress(SagaError):
                await decide(self, saga_id, decider, pairs=pairs)

        tasks.add(asyncio.get_running_loop().create_task(store()))
        return known[0]

    return patch.object(Workshop, "decide", hasty)


def undo_sent_again_in_doubt() -> AbstractContextManager[object]:
    readiness = rollback.part_readiness

    def eager(part: Part) -> Readiness:
        free = part.state is PartState.UNDO_IN_DOUBT and not part.running
        return Readiness.READY if free else readiness(part)

    return patch.object(rollback, "part_readiness", eager)


def _misses(change: Callable[[Miss], Miss]) -> AbstractContextManager[object]:
    first_miss = step_decisions._first_miss  # pyright: ignore[reportPrivateUsage]  # the fault is planted inside

    def changed(draft: Draft, number: int, miss: Miss, driving: Driving) -> None:
        first_miss(draft, number, change(miss), driving)

    return patch.object(step_decisions, "_first_miss", changed)


def call_sent_again_in_doubt() -> AbstractContextManager[object]:
    return _misses(lambda miss: replace(miss, effect=Effect.NONE) if miss.more else miss)


def error_counted_as_no_effect() -> AbstractContextManager[object]:
    return _misses(lambda miss: miss if miss.more else replace(miss, effect=Effect.NONE))


def failed_undo_counted_as_done() -> AbstractContextManager[object]:
    called = undoing._called  # pyright: ignore[reportPrivateUsage]  # see above

    async def kind(undoer: Undoer, args: JsonObject, context: UndoContext) -> UndoOutcome:
        outcome = await called(undoer, args, context)
        return Undone() if isinstance(outcome, UndoMissed) else outcome

    return patch.object(undoing, "_called", kind)


def undo_overtakes_its_call() -> AbstractContextManager[object]:
    def never(_saga: Saga) -> bool:
        return False

    return patch.object(rollback, "waits_for_calls", never)


def oldest_undone_first() -> AbstractContextManager[object]:
    return patch.object(rollback, "reversed", iter, create=True)


def late_answer_lost() -> AbstractContextManager[object]:
    landed = step_decisions.landed

    def in_time_only(saga: Saga, number: int, landing: Any, driving: Driving) -> tuple[Event, ...]:  # noqa: ANN401 - passed on
        return landed(saga, number, landing, driving) if saga.step(number).state is StepState.INTENDED else ()

    return patch.object(forward, "landed", in_time_only)


def living_process_taken_for_dead() -> AbstractContextManager[object]:
    async def lives(self: Workshop, owners: Collection[str]) -> Mapping[str, Life]:
        return {owner: Life.LIVES if owner == self.owners.me else Life.DEAD for owner in owners}

    return patch.object(Workshop, "lives", lives)


def commit_with_a_doubt() -> AbstractContextManager[object]:
    def nothing(_saga: Saga, _step: Step, *, accepted: tuple[int, ...] = ()) -> bool:
        del accepted
        return False

    return _both((on_saga, "blocks_commit"), (saga_decisions, "blocks_commit"), to=nothing)


def new_key_for_each_attempt() -> AbstractContextManager[object]:
    numbers = itertools.count()

    def fresh(key: str, part: str, generation: int) -> str:
        return f"{key}.u{part}.g{generation + next(numbers)}"

    return patch.object(undo_probing, "undo_key", fresh)


def no_verdict_taken_for_absent() -> AbstractContextManager[object]:
    said = probing.Probing._said  # pyright: ignore[reportPrivateUsage]  # see above

    async def sure(self: probing.Probing, *which: Any) -> Any:  # noqa: ANN401 - passed on
        verdict = await said(self, *which)
        return Absent() if isinstance(verdict, NoVerdict) else verdict

    return patch.object(probing.Probing, "_said", sure)


def undo_of_a_dead_process_counted_as_not_sent() -> AbstractContextManager[object]:
    def missed(saga: Saga, number: int, part: str, reason: str, driving: Driving) -> tuple[Event, ...]:
        return undo_decisions.undo_missed(saga, number, part, UndoMiss(effect=Effect.NONE, error=reason), driving)

    return patch.object(takeover, "undo_lost", missed)


def call_of_a_dead_process_counted_as_absent() -> AbstractContextManager[object]:
    def missed(saga: Saga, number: int, *, reason: str, driving: Driving, **_: Any) -> tuple[Event, ...]:  # noqa: ANN401 - not needed
        return step_decisions.missed(saga, number, Miss(effect=Effect.NONE, error=reason), driving)

    return patch.object(takeover, "run_lost", missed)


def step_key_not_looked_at() -> AbstractContextManager[object]:
    def new(_saga: Saga, _plan: StepPlan) -> repeats.Repeat:
        return repeats.NewStep()

    return patch.object(repeats, "_by_key", new)


def lost_answers_taken_for_heard() -> AbstractContextManager[object]:
    def never(_self: repeats.KnownReplies, _saga: Saga, _step: Step) -> bool:
        return False

    return patch.object(repeats.KnownReplies, "lost_of", never)


def equal_calls_not_looked_at() -> AbstractContextManager[object]:
    def nothing(*_: object) -> None:
        return None

    return patch.object(repeats, "_by_answer", nothing)


def first_calls_not_found_again() -> AbstractContextManager[object]:
    async def nothing(*_: object) -> None:
        return None

    return patch.object(FirstTurns, "_opened_before", nothing)


@contextmanager
def _both(*places: tuple[object, str], to: object) -> Generator[None]:
    with ExitStack() as planted:
        for module, name in places:
            planted.enter_context(patch.object(module, name, to))
        yield


FAULTS: dict[Planting, str] = {
    intent_after_the_call: "was sent without a durable intent",
    undo_sent_again_in_doubt: "was sent again on a guess",
    call_sent_again_in_doubt: "was sent again on a guess",
    error_counted_as_no_effect: "is failed and stands",
    failed_undo_counted_as_done: "is compensated and stands",
    undo_overtakes_its_call: "did not wait for step",
    oldest_undone_first: "came before that of step",
    late_answer_lost: "which nobody has recorded",
    living_process_taken_for_dead: "overtook its call",
    commit_with_a_doubt: "stands, its saga is committed",
    new_key_for_each_attempt: "without a durable intent of that key",
    no_verdict_taken_for_absent: "is failed and stands",
    undo_of_a_dead_process_counted_as_not_sent: "was sent again on a guess",
    call_of_a_dead_process_counted_as_absent: "is failed and stands",
    step_key_not_looked_at: "times for one call",
    lost_answers_taken_for_heard: "times for one call",
    equal_calls_not_looked_at: "times for one call",
    first_calls_not_found_again: "times for one call",
}
"""Each fault with what the judge says of it."""


def _name(fault: Planting) -> str:
    return getattr(fault, "__name__", "")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("fault", "seen"), [pytest.param(*each, id=_name(each[0])) for each in FAULTS.items()])
def test_the_schedules_catch_a_planted_fault(fault: Planting, seen: str) -> None:
    met: set[str] = set()
    with fault():
        for seed in range(SEEDS):
            problems = run(seed).problems
            met.update(problems)
            if any(seen in problem for problem in problems):
                return
    pytest.fail(f"{_name(fault)} was not seen in {SEEDS} schedules; these were: {sorted(met)[:5]}")
