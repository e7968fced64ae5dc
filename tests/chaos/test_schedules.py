"""Random schedules of calls, cancels, aborts, retries and crashes: nothing lost, nothing doubled, nothing false.

Each seed is a schedule of two processes on one log (`schedule.py`); the outside world is the judge (`outside.py`).
"""

from __future__ import annotations

import os

import pytest
from tests.chaos.schedule import run

EVERYDAY = 200
MANY = 10_000
SLICES = 4


def _in_order(seeds: range) -> None:
    for seed in seeds:
        came = run(seed)
        assert not came.problems, came.told


@pytest.mark.slow
def test_whatever_happens_nothing_is_lost_doubled_or_called_undone_that_is_not() -> None:
    _in_order(range(EVERYDAY))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(SLICES))
def test_ten_thousand_schedules_lose_nothing_and_double_nothing(part: int) -> None:
    size = MANY // SLICES
    _in_order(range(part * size, (part + 1) * size))


def test_one_seed_alone() -> None:
    """`SEED=n` says which; the failure of another test tells how."""
    came = run(int(os.environ.get("SEED", "0")))
    assert not came.problems, came.told


def test_a_seed_does_the_same_thing_again() -> None:
    """Or nobody could look into a schedule that went wrong."""
    for seed in range(20):
        assert run(seed).lines == run(seed).lines
