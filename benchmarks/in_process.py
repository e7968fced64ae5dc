"""Rows about the engine alone: in process, on the real SQLite log, without a wire that would hide them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path

import anyio

from benchmarks.disk import fsync_ms
from benchmarks.rows import Budget, Row
from benchmarks.wire import WentWrong, configure
from saga_mcp.app import App, load, open_app
from saga_mcp.domain.saga_events import SagaCommitted, SagaOpened
from saga_mcp.domain.values import Phase
from saga_mcp.engine.first_turn import new_saga_id
from saga_mcp.engine.port import Caller
from saga_mcp.log.port import Decision

_CALLER = Caller()
_REALM = "benchmark"
_ROUNDS = 5
_CALLERS = 64
_STEPS_EACH = 8
_PARALLEL = 16
_PARALLEL_STEPS = 128
_ABORTS = 3
_ABORT_CALLERS = 20
_BUDGETED_ABORT = 1_000
_FINISHED, _OPEN = 10_000, 100
_AT_ONCE = 100


async def _step(app: App, saga_id: str, number: int) -> None:
    reply = await app.engine.call(
        "record", {"name": f"entry {number}", "amount": number}, saga_id=saga_id, caller=_CALLER
    )
    if reply.code:
        raise WentWrong(reply.code)


async def _steps(app: App, saga_id: str, numbers: range) -> None:
    for number in numbers:
        await _step(app, saga_id, number)


async def _begin(app: App) -> str:
    return (await app.engine.begin(_CALLER)).id


async def _in_parallel(app: App, saga_ids: Sequence[str], steps: int) -> None:
    """As many callers as there are ids, each with so many steps, one after the other."""
    async with anyio.create_task_group() as callers:
        for caller, saga_id in enumerate(saga_ids):
            callers.start_soon(_steps, app, saga_id, range(caller * steps, (caller + 1) * steps))


async def _rate(steps: int, work: Awaitable[None]) -> float:
    began = time.perf_counter()
    await work
    return steps / (time.perf_counter() - began)


def throughput(folder: Path) -> Sequence[Row]:
    """Steps per second: by turns one caller, many on sagas of their own, and many on one saga."""
    return anyio.run(_throughput, folder)


async def _throughput(folder: Path) -> Sequence[Row]:
    alone, many, one_by_one, together = list[float](), list[float](), list[float](), list[float]()
    async with open_app(load(configure(folder))) as app:
        for _ in range(_ROUNDS):
            ids = [await _begin(app) for _ in range(_CALLERS)]
            alone.append(await _rate(_CALLERS * _STEPS_EACH, _in_turn(app, ids)))
            ids = [await _begin(app) for _ in range(_CALLERS)]
            many.append(await _rate(_CALLERS * _STEPS_EACH, _in_parallel(app, ids, _STEPS_EACH)))
            saga_id = await _begin(app)
            one_by_one.append(await _rate(_PARALLEL_STEPS, _steps(app, saga_id, range(_PARALLEL_STEPS))))
            ids = [await _begin(app)] * _PARALLEL
            together.append(await _rate(_PARALLEL_STEPS, _in_parallel(app, ids, _PARALLEL_STEPS // _PARALLEL)))
    return [
        Row(
            what=f"{_CALLERS} callers on {_CALLERS} sagas",
            subject=statistics.median(many),
            unit="steps/s",
            baseline=statistics.median(alone),
            baseline_is="one caller, one after the other",
            budget=Budget(4, at_least=True),
        ),
        Row(
            what=f"{_PARALLEL} callers on one saga",
            subject=statistics.median(together),
            unit="steps/s",
            baseline=statistics.median(one_by_one),
            baseline_is="one caller on one saga",
            budget=Budget(2, at_least=True),
        ),
    ]


async def _in_turn(app: App, saga_ids: Sequence[str]) -> None:
    for saga_id in saga_ids:
        await _steps(app, saga_id, range(_STEPS_EACH))


def abort(lengths: Sequence[int], folder: Path) -> Sequence[Row]:
    """Undo sagas of so many steps, by turns; the budget is for 1,000, and no undo is to cost more for the length."""
    took: dict[int, list[float]] = {length: [] for length in lengths}
    fsyncs: dict[int, list[float]] = {length: [] for length in lengths}
    for turn in range(_ABORTS):
        for length in lengths:
            own = folder / f"{turn}-{length}"
            own.mkdir()
            fsyncs[length].append(fsync_ms(own) / 1000)
            took[length].append(anyio.run(_abort, length, own))
            fsyncs[length].append(fsync_ms(own) / 1000)
    seconds = {length: statistics.median(took[length]) for length in lengths}
    return [
        *(
            Row(
                what=f"abort of {length:,} steps",
                subject=seconds[length],
                unit="s",
                baseline=length * statistics.mean(fsyncs[length]),
                baseline_is=f"{length:,} fsyncs, before and after",
                budget=Budget(1.0, of="subject") if length == _BUDGETED_ABORT else None,
            )
            for length in lengths
        ),
        *(
            Row(
                what=f"abort, each of {longer:,} steps",
                subject=seconds[longer] / longer * 1000,
                unit="ms",
                baseline=seconds[shorter] / shorter * 1000,
                baseline_is=f"each of {shorter:,} steps",
            )
            for shorter, longer in pairwise(lengths)
        ),
    ]


async def _abort(length: int, folder: Path) -> float:
    async with open_app(load(configure(folder))) as app:
        saga_id = await _begin(app)
        await _in_parallel(app, [saga_id] * _ABORT_CALLERS, length // _ABORT_CALLERS)
        began = time.perf_counter()
        await app.engine.abort(saga_id, cause="agent")
        saga = await app.engine.rest(saga_id)
        seconds = time.perf_counter() - began
    if saga.phase is not Phase.COMPENSATED or len(saga.steps) != length:
        raise WentWrong(f"{saga.phase.value}, {len(saga.steps)} steps")
    return seconds


def scan(folder: Path) -> Sequence[Row]:
    """What a start finds: sagas that were finished, and some whose server died in the middle of a call."""
    return anyio.run(_scan, folder)


async def _scan(folder: Path) -> Sequence[Row]:
    empty, full = folder / "empty", folder / "full"
    for each in (empty, full):
        each.mkdir()
        configure(each)
    async with open_app(load(full / "saga.toml")) as app:
        await _finish(app, _FINISHED)
    await _die_in_calls(full / "saga.toml")
    bare, ours = list[float](), list[float]()
    for _ in range(_ROUNDS):
        bare.append(await _first_scan_s(empty / "saga.toml", 0))
        ours.append(await _first_scan_s(full / "saga.toml", _OPEN))
    began = time.perf_counter()
    async with open_app(load(full / "saga.toml")) as app:
        await _until(lambda: _busy(app, 0))
        recovered_s = time.perf_counter() - began
    return [
        Row(
            what=f"start-up scan, {_FINISHED:,} finished and {_OPEN} open sagas",
            subject=statistics.median(ours),
            unit="s",
            baseline=statistics.median(bare),
            baseline_is="empty database",
            budget=Budget(0.2, of="subject"),
        ),
        Row(what=f"the {_OPEN} at rest again", subject=recovered_s, unit="s"),
    ]


async def _first_scan_s(config: Path, expected: int) -> float:
    """Seconds from opening the log to the first list of what is to be driven."""
    loaded = load(config)
    began = time.perf_counter()
    async with open_app(loaded, drive=False) as app:
        found = await app.log.busy_sagas(_REALM)
        seconds = time.perf_counter() - began
    if len(found) != expected:
        raise WentWrong(f"{len(found)} busy sagas instead of {expected}")
    return seconds


async def _finish(app: App, count: int) -> None:
    decision = Decision(events=(SagaOpened(realm=_REALM, driver=app.owners.me), SagaCommitted(by="agent")))

    async def some() -> None:
        for _ in range(count // _AT_ONCE):
            await app.log.decide(new_saga_id(), lambda _: decision)

    async with anyio.create_task_group() as tasks:
        for _ in range(_AT_ONCE):
            tasks.start_soon(some)


async def _die_in_calls(config: Path) -> None:
    """Leave sagas behind as a kill does: an app that ends without being drained records no outcome any more."""
    async with anyio.create_task_group() as calls, open_app(load(config)) as app:
        for number in range(_OPEN):
            saga_id = await _begin(app)
            calls.start_soon(_hang, app, saga_id, number)
        await _until(lambda: _busy(app, _OPEN))
        calls.cancel_scope.cancel()


async def _hang(app: App, saga_id: str, number: int) -> None:
    await app.engine.call("hang", {"name": f"entry {number}"}, saga_id=saga_id, caller=_CALLER)


async def _busy(app: App, count: int) -> bool:
    return len(await app.log.busy_sagas(_REALM)) == count


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while not await holds():  # noqa: ASYNC110 - the log tells of no such event
            await anyio.sleep(0.02)
