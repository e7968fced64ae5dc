"""Days of three agents, seed by seed: every effect has a record that tells the truth, and every saga can be ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias
from unittest.mock import patch

import pytest
from tests.chaos.day import run_day
from tests.world import memory
from tests.world.memory import MemoryLog

from saga_mcp.domain.stranded import Attempt
from saga_mcp.engine import engine
from saga_mcp.engine.drivers.rounds import Rounds

EVERYDAY = 3
MANY = 40
SLICES = 4


def _in_order(seeds: range) -> None:
    for seed in seeds:
        came = run_day(seed)
        assert not came.problems, came.told


def test_after_a_day_of_trouble_the_world_is_as_the_records_say_and_every_saga_ends() -> None:
    _in_order(range(EVERYDAY))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(SLICES))
def test_after_forty_days_of_trouble_the_world_is_as_the_records_say(part: int) -> None:
    size = MANY // SLICES
    _in_order(range(part * size, (part + 1) * size))


def test_one_day_alone() -> None:
    """`SEED=n` says which; the failure of another test tells how."""
    came = run_day(int(os.environ.get("SEED", "0")))
    assert not came.problems, came.told


# --- the judge condemns -----------------------------------------------------------------------------------------------

DAYS = 8
"""Among so many the first one that catches a fault must be."""
Planting: TypeAlias = Callable[[], AbstractContextManager[object]]


def nobody_is_asked() -> AbstractContextManager[object]:
    def never(*_: object) -> bool:
        return False

    return patch.object(engine, "asks", never)


def calls_elsewhere_end_with_their_process() -> AbstractContextManager[object]:
    async def none(*_: object) -> frozenset[Attempt]:
        return frozenset()

    return patch.object(Rounds, "_lasting", none)


def what_others_hold_is_free() -> AbstractContextManager[object]:
    def free(*_: object) -> None:
        return None

    return patch.object(memory, "holder", free)


def time_is_counted_by_each_process() -> AbstractContextManager[object]:
    observe = MemoryLog.observe

    async def trice(self: MemoryLog, realm: str, seen: float, seconds: float) -> float:
        return await observe(self, realm, seen, 3 * seconds)

    return patch.object(MemoryLog, "observe", trice)


FAULTS: dict[Planting, str] = {
    nobody_is_asked: "nobody had allowed it",
    calls_elsewhere_end_with_their_process: "was sent beside another undo",
    what_others_hold_is_free: "holds room",
    time_is_counted_by_each_process: " idles after ",
}
"""Each fault with what the judge says of it."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fault", "seen"), [pytest.param(*each, id=str(number)) for number, each in enumerate(FAULTS.items())]
)
def test_a_day_catches_a_planted_fault(fault: Planting, seen: str) -> None:
    with fault():
        assert any(seen in problem for seed in range(DAYS) for problem in run_day(seed).problems)
