"""Random schedules over three replicas on one PostgreSQL: nothing lost, nothing doubled, nothing false, nothing open.

Each seed is a schedule (`schedule.py`); the outside world is the judge (`judge.py`). `SAGA_MCP_SEEDS=40` runs more of
them, and `SAGA_MCP_FIRST_SEED=100` others.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.postgres.server import PostgresServer
from tests.replicas.schedule import Schedule

ANSWERS = int(os.environ.get("SAGA_MCP_ANSWERS", "40"))
"""How long the schedule of every day is."""
FIRST = int(os.environ.get("SAGA_MCP_FIRST_SEED", "1"))
SEEDS = int(os.environ.get("SAGA_MCP_SEEDS", "4"))

pytestmark = pytest.mark.timeout(600)


async def test_one_seed_alone(own_server: PostgresServer, tmp_path: Path) -> None:
    """`SEED=n` says which; the failure of another test tells how."""
    run = await Schedule(int(os.environ.get("SEED", "0")), tmp_path, own_server, answers=ANSWERS).play()
    assert not run.problems, run.told


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
async def test_whatever_happens_to_replicas_the_world_is_as_the_records_say(
    own_server: PostgresServer, tmp_path: Path, seed: int
) -> None:
    run = await Schedule(seed, tmp_path, own_server).play()
    assert not run.problems, run.told
