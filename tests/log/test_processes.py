"""Several processes on one database, killed at any moment (CASES C27, C28, C44; SEMANTICS.md S10.1)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from tests.log.decisions import opening
from tests.log.kinds import opened_sql_log

from saga_mcp.domain.values import Phase
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import SagaLog
from saga_mcp.log.sql import SqlSagaLog

ROOT = Path(__file__).parents[2]
WITHIN_S = 60


Lasting: TypeAlias = Path | ServerPlace


@pytest.fixture(params=["sqlite", "postgresql"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Lasting:
    """A database that several processes can use."""
    if request.param == "sqlite":
        return tmp_path / "saga.db"
    place: ServerPlace = request.getfixturevalue("server_place")
    return place


@pytest.fixture
async def log(path: Lasting) -> AsyncGenerator[SqlSagaLog]:
    async with opened_sql_log(path) as opened:
        yield opened


def start(path: Lasting, *job: str) -> subprocess.Popen[str]:
    place = str(path) if isinstance(path, Path) else path.url
    return subprocess.Popen(
        [sys.executable, "-m", "tests.log.worker", place, *job],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(worker: subprocess.Popen[str]) -> Any:  # noqa: ANN401 - whatever the worker says
    out, err = worker.communicate(timeout=WITHIN_S)
    assert (worker.returncode, err) == (0, "")
    return json.loads(out)


@pytest.mark.case(44, 49)
@pytest.mark.slow
async def test_four_processes_with_fifty_sagas_of_five_steps_lose_nothing(path: Lasting) -> None:
    """Also starts them all on a file that does not exist, so the schema is created once."""
    workers = [start(path, "sagas", str(number), "50", "5") for number in range(4)]
    for worker in workers:
        finish(worker)
    async with opened_sql_log(path) as log:
        rows = await log.sagas("ops", limit=1000)
        assert {(row.steps, row.seq) for row in rows} == {(5, 11)}
        assert len(rows) == 200
        for row in rows:
            assert [record.seq for record in await log.history(row.id)] == list(range(1, 12))


async def test_two_processes_that_append_to_one_saga_lose_no_step(log: SagaLog, path: Lasting) -> None:
    await log.decide("sg-a", opening())
    workers = [start(path, "shared", "sg-a", "40") for _ in range(2)]
    for worker in workers:
        finish(worker)
    assert [step.number for step in (await log.load("sg-a")).steps] == list(range(1, 81))


@pytest.mark.slow
@pytest.mark.case(28)
async def test_of_a_commit_and_an_abort_at_the_same_instant_exactly_one_wins(log: SagaLog, path: Lasting) -> None:
    count = 50
    for number in range(count):
        await log.decide(f"sg-race-{number}", opening())
    start_at = str(time.time() + 2)
    workers = [start(path, "race", how, start_at, str(count)) for how in ("commit", "abort")]
    committed, aborted = (finish(worker) for worker in workers)
    assert sorted(committed["won"] + aborted["won"]) == sorted(f"sg-race-{number}" for number in range(count))
    assert sum(committed["refused"].values()) == len(aborted["won"])
    for number in range(count):
        phase = (await log.load(f"sg-race-{number}")).phase
        assert (phase is Phase.COMMITTED) == (f"sg-race-{number}" in committed["won"])


@pytest.mark.slow
async def test_whenever_a_writer_is_killed_the_log_is_a_legal_prefix_with_all_that_was_answered(path: Lasting) -> None:
    answered: dict[str, int] = {}
    for _ in range(12):
        worker = start(path, "forever")
        assert worker.stdout is not None
        first = worker.stdout.readline()
        await anyio.sleep(random.uniform(0.0, 0.2))  # noqa: S311 - the moment of the kill is what varies here
        worker.kill()
        rest, _ = worker.communicate(timeout=WITHIN_S)
        for line in (first + rest).splitlines():
            saga_id, _, seq = line.partition(" ")
            if seq.isdigit():
                answered[saga_id] = max(answered.get(saga_id, 0), int(seq))
    assert len(answered) > 20
    async with opened_sql_log(path) as log:
        for row in await log.sagas("ops", limit=100_000):
            saga = await log.load(row.id)  # folds every event: an illegal one would quarantine it
            assert saga.seq == row.seq == len(await log.history(row.id))
            assert saga.seq >= answered.pop(row.id, 0)
    assert answered == {}
