"""Rows about upstream servers: ours before one, beside a bare SDK proxy before the same one."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.over_stdio import Agent, call_s
from benchmarks.rows import Budget, Row
from benchmarks.wire import HERE, Connection, governed, started

_PROXY = (sys.executable, str(HERE / "proxy.py"))
_PROXY_IS = "bare SDK proxy"
_CALLS = 400
_WARM_UP = 40
_CALLERS = (16, 64)
_ROUNDS = 12
_ABORTED = 100


def configure(folder: Path) -> Path:
    """Write the config of the measured server into `folder`, and return its path."""
    config = folder / "saga.toml"
    config.write_text(
        f"""\
[saga]
name = "benchmark"
database = "sqlite:///saga.db"

[upstreams.bare]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(HERE / "bare.py"))}]
prefix = ""
read_only = ["look"]

[tools."bare.look"]
kind = "read_only"

[tools."bare.record"]
undo = {{ tool = "bare.forget", args = {{ name = "${{args.name}}" }}, idempotent = true }}
""",
        encoding="utf-8",
    )
    return config


@dataclass(frozen=True, slots=True)
class _Both:
    """The two servers."""

    ours: Connection
    proxy: Connection


def upstream(folder: Path) -> Sequence[Row]:
    """Calls, callers and an abort."""
    with ExitStack() as stack:
        both = _Both(*(stack.enter_context(started(each)) for each in (governed(configure(folder)), _PROXY)))
        for server in (both.ours, both.proxy):
            server.initialize()
            server.until_answered("look", name="entry", amount=0)
        return [*_one_caller(both), *(_callers(both, count) for count in _CALLERS), _abort(both)]


def _one_caller(both: _Both) -> Iterator[Row]:
    agent = Agent(both.ours)
    written, read, passed = list[float](), list[float](), list[float]()
    for number in range(_WARM_UP + _CALLS):
        passed.append(call_s(both.proxy, number) * 1000)
        written.append(agent.call_s() * 1000)
        read.append(call_s(both.ours, number, tool="look") * 1000)
    baseline = statistics.median(passed[_WARM_UP:])
    for what, samples, budget in (
        ("governed upstream call, p50", written, Budget(1.7)),
        ("read-only upstream call, p50", read, None),
    ):
        median = statistics.median(samples[_WARM_UP:])
        yield Row(what=what, subject=median, unit="ms", baseline=baseline, baseline_is=_PROXY_IS, budget=budget)


def _callers(both: _Both, count: int) -> Row:
    """As many calls at once as there are callers, again and again: ours each in a saga of its own."""
    sagas = [both.ours.begin() for _ in range(count)]
    ours = [
        _rate(both.ours, [{"name": f"{number}.{of}", "amount": of, "saga_id": sagas[of]} for of in range(count)])
        for number in range(_ROUNDS)
    ]
    passed = [
        _rate(both.proxy, [{"name": f"{number}.{of}", "amount": of} for of in range(count)])
        for number in range(_ROUNDS)
    ]
    return Row(
        what=f"governed upstream calls, {count} callers",
        subject=statistics.median(ours),
        unit="calls/s",
        baseline=statistics.median(passed),
        baseline_is=_PROXY_IS,
    )


def _rate(server: Connection, calls: Sequence[dict[str, object]]) -> float:
    began = time.perf_counter()
    server.call_all("record", calls)
    return len(calls) / (time.perf_counter() - began)


def _abort(both: _Both) -> Row:
    saga_id = both.ours.begin()
    for number in range(_ABORTED):
        both.ours.call("record", name=f"entry {number}", amount=number, saga_id=saga_id)
    began = time.perf_counter()
    both.ours.call("saga_abort", saga_id=saga_id)
    aborted_s = time.perf_counter() - began
    began = time.perf_counter()
    for number in range(_ABORTED):
        both.proxy.call("forget", name=f"entry {number}")
    return Row(
        what=f"abort of {_ABORTED} upstream steps",
        subject=aborted_s,
        unit="s",
        baseline=time.perf_counter() - began,
        baseline_is=f"{_ABORTED} calls by the {_PROXY_IS}",
    )
