"""What the disk takes by itself: nothing that is durable can cost less."""

from __future__ import annotations

import os
import sqlite3
import statistics
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

_PAGE = b"\0" * 4096
_TRIES = 200
_WAL_HEADER, _FRAME_HEADER, _PAGE_SIZE_AT = 32, 24, 8


def fsync_ms(folder: Path) -> float:
    """Median of appending one page to a file and waiting until it is on the disk."""
    samples: list[float] = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(_TRIES):
            began = time.perf_counter()
            file.write(_PAGE)
            os.fsync(file.fileno())
            samples.append(time.perf_counter() - began)
    return statistics.median(samples) * 1000


class PlainLog:
    """The cheapest durable log there is in SQLite: one table, one row for each commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def commit_s(self) -> float:
        """Seconds of one durable commit."""
        began = time.perf_counter()
        self._connection.execute("INSERT INTO event (facts) VALUES (?)", ("x" * 300,))
        return time.perf_counter() - began


@contextmanager
def plain_log(folder: Path) -> Generator[PlainLog]:
    """Open one with the settings of the saga log."""
    with closing(sqlite3.connect(folder / "plain.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=wal")
        connection.execute("PRAGMA synchronous=full")
        connection.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, facts TEXT)")
        yield PlainLog(connection)


def commits_in(wal: Path) -> int:
    """Count the transactions in a write-ahead log that was not started over since: frames that end one say so."""
    content = wal.read_bytes()
    page_size = int.from_bytes(content[_PAGE_SIZE_AT : _PAGE_SIZE_AT + 4], "big")
    salt = content[16:24]
    commits = 0
    for at in range(_WAL_HEADER, len(content) - page_size, _FRAME_HEADER + page_size):
        if content[at + 8 : at + 16] != salt:
            break
        commits += content[at + 4 : at + 8] != b"\0\0\0\0"
    return commits
