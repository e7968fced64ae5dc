"""A process of its own that works on a saga log: `python -m tests.log.worker DATABASE JOB ...`.

It tells its parent by lines on stdout.
"""

# ruff: noqa: T201 - see above

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.log.decisions import aborting, committing, intending, opening, succeeding
from tests.log.kinds import opened_sql_log

from saga_mcp.domain.errors import Refused
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import SagaLog


async def sagas(log: SagaLog, name: str, count: int, steps: int) -> dict[str, int]:
    """Open `count` sagas at once and take each through `steps` steps."""

    async def one(number: int) -> None:
        saga_id = f"sg-{name}-{number}"
        await log.decide(saga_id, opening())
        for _ in range(steps):
            await log.decide(saga_id, intending())
            await log.decide(saga_id, succeeding())

    await asyncio.gather(*(one(number) for number in range(count)))
    return {"sagas": count}


async def shared(log: SagaLog, saga_id: str, steps: int) -> dict[str, int]:
    """Append steps to one saga that others append to as well."""
    for _ in range(steps):
        await log.decide(saga_id, intending())
    return {"steps": steps}


async def race(log: SagaLog, how: str, start_at: float, count: int) -> dict[str, object]:
    """End `count` sagas at agreed instants, by commit or by abort."""
    won: list[str] = []
    refused: Counter[str] = Counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, start_at + number * 0.02 - time.time()))
        try:
            await log.decide(f"sg-race-{number}", committing if how == "commit" else aborting)
            won.append(f"sg-race-{number}")
        except Refused as refusal:
            refused[refusal.code] += 1
    return {"won": won, "refused": dict(refused)}


async def forever(log: SagaLog) -> dict[str, int]:
    """Append until killed; each decision that returned is printed, so that the parent knows what must be there."""
    number = 0
    while True:
        number += 1
        saga_id = f"sg-{time.time_ns()}-{number}"
        await log.decide(saga_id, opening())
        for _ in range(3):
            await log.decide(saga_id, intending())
            seq = (await log.decide(saga_id, succeeding())).saga.seq
            print(saga_id, seq, flush=True)


async def main(where: str, job: str, *args: str) -> None:
    place = ServerPlace(url=where, name="the log", beside=Path()) if "://" in where else Path(where)
    async with opened_sql_log(place) as log:
        match job:
            case "sagas":
                result: object = await sagas(log, args[0], int(args[1]), int(args[2]))
            case "shared":
                result = await shared(log, args[0], int(args[1]))
            case "race":
                result = await race(log, args[0], float(args[1]), int(args[2]))
            case _:
                result = await forever(log)
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *sys.argv[2:]))
