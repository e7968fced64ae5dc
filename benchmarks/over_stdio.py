"""Rows that are measured from outside: real processes, real pipes, the bare SDK server beside ours."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.disk import commits_in, plain_log
from benchmarks.rows import Budget, Row, percentile
from benchmarks.wire import BARE, Connection, configure, governed, started

_CALLS = 600
_WARM_UP = 50
_STEPS_A_SAGA = 20
"""An agent's task has about so many."""
_COUNTED_CALLS = 20
_STARTS = 10
_IDLE_S = 2.0
_BARE = "bare SDK server"


class Agent:
    """Calls `record` in one saga after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._numbers = itertools.count()
        self._saga_id = ""

    def call_s(self) -> float:
        """Seconds of one governed call; opening the saga is not one."""
        number = next(self._numbers)
        if number % _STEPS_A_SAGA == 0:
            self._saga_id = self._connection.begin()
        return call_s(self._connection, number, saga_id=self._saga_id)


def call_s(connection: Connection, number: int, *, tool: str = "record", **more: str) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    connection.call(tool, name=f"entry {number}", amount=number, **more)
    return time.perf_counter() - began


def calls(folder: Path) -> Sequence[Row]:
    """One caller, by turns: a bare call, a governed one, a commit."""
    ours, bare, commits = list[float](), list[float](), list[float]()
    with (
        plain_log(folder) as log,
        started(BARE) as bare_server,
        started(governed(configure(folder))) as our_server,
    ):
        bare_server.initialize()
        our_server.initialize()
        agent = Agent(our_server)
        for number in range(_WARM_UP + _CALLS):
            bare.append(call_s(bare_server, number) * 1000)
            ours.append(agent.call_s() * 1000)
            commits.append(log.commit_s() * 1000)
    ours, bare, commits = ours[_WARM_UP:], bare[_WARM_UP:], commits[_WARM_UP:]
    median = statistics.median(ours)
    return [
        Row(
            what="governed call, p50",
            subject=median,
            unit="ms",
            baseline=statistics.median(bare),
            baseline_is=_BARE,
            budget=Budget(2.2),
        ),
        Row(
            what="governed call, p99",
            subject=percentile(ours, 99),
            unit="ms",
            baseline=percentile(bare, 99),
            baseline_is=_BARE,
        ),
        Row(
            what="two durable commits alone, p50",
            subject=2 * statistics.median(commits),
            unit="ms",
            baseline=statistics.median(bare),
            baseline_is=_BARE,
        ),
    ]


def commits(folder: Path) -> Sequence[Row]:
    """Durable commits, counted in the write-ahead log of a server that serves."""
    wal = folder / "saga.db-wal"
    with started(governed(configure(folder))) as server:
        server.initialize()
        saga_id = server.begin()
        before = commits_in(wal)
        for number in range(_COUNTED_CALLS):
            call_s(server, number, saga_id=saga_id)
        counted = commits_in(wal) - before
    budget = Budget(2, of="subject")
    return [Row(what="durable commits per governed call", subject=counted / _COUNTED_CALLS, unit="", budget=budget)]


def start(folder: Path) -> Sequence[Row]:
    """From the start of the process to the first list of tools."""
    command = governed(configure(folder))
    _first_list_s(command)  # creates the database
    bare, ours = list[float](), list[float]()
    for _ in range(_STARTS):
        bare.append(_first_list_s(BARE) * 1000)
        ours.append(_first_list_s(command) * 1000)
    return [
        Row(
            what="start to first tools/list, p50",
            subject=statistics.median(ours),
            unit="ms",
            baseline=statistics.median(bare),
            baseline_is=_BARE,
            budget=Budget(1.7),
        )
    ]


def _first_list_s(command: Sequence[str]) -> float:
    began = time.perf_counter()
    with started(command) as server:
        server.initialize()
        server.request("tools/list")
        return time.perf_counter() - began


def memory(folder: Path) -> Sequence[Row]:
    """Resident memory, some calls after the start."""
    with started(BARE) as bare, started(governed(configure(folder))) as ours:
        for server in (bare, ours):
            server.initialize()
            server.request("tools/list")
        agent = Agent(ours)
        for number in range(_STEPS_A_SAGA):
            call_s(bare, number)
            agent.call_s()
        time.sleep(_IDLE_S)
        return [
            Row(
                what="memory, idle",
                subject=_resident_mb(ours),
                unit="MB",
                baseline=_resident_mb(bare),
                baseline_is=_BARE,
                budget=Budget(1.9),
            )
        ]


def _resident_mb(server: Connection) -> float:
    resident: int = psutil.Process(server.pid).memory_info().rss
    return resident / 1e6
