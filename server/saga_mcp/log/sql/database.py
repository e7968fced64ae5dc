"""What is particular to a kind of database; everything else of the adapter is the same code for all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.engine import Dialect

from saga_mcp.log.port import Append
from saga_mcp.log.sql.worker import Worker


class Database(Protocol):
    """One database, from the side of one process. Nothing is opened before its workers are first used."""

    @property
    def name(self) -> str:
        """As people know it; holds no secret."""
        ...

    @property
    def dialect(self) -> Dialect:
        """For what statements are compiled."""
        ...

    @property
    def writer_id(self) -> str:
        """Random, 16 hexadecimal digits: with what the ids of all batches begin that are written through this."""
        ...

    @property
    def poll_s(self) -> float:
        """How often, in seconds, it has to be asked whether something changed."""
        ...

    def used(self) -> AbstractContextManager[None]:
        """Protect what this process has open, until the block ends."""
        ...

    def writer(self) -> Worker:
        """A worker whose transactions are as if they ran one after the other, across all processes."""
        ...

    def reader(self) -> Worker:
        """A worker whose transactions each read one state, also while another process writes."""
        ...

    def wait_for_end(self, connection: Connection, append: Append) -> None:
        """Return once the transaction that may have stored `append` has ended, whatever became of it."""
        ...

    def alone(self, connection: Connection) -> None:
        """Let no batch of any process overlap with this transaction: each has ended before, or begins after it."""
        ...

    def translate(self, error: Exception) -> Exception:
        """The condition behind an error of the database: `Busy`, or a `LogUnavailable` with the next move."""
        ...

    def version(self, connection: Connection) -> object:
        """What is another one when something may have changed."""
        ...

    async def listen(self, announce: Callable[[], None]) -> None:
        """Call `announce` from now on when another process tells that it changed something, if it can be told."""
        ...

    def tell(self, reader: Worker) -> None:
        """Tell other processes, soon, that something changed."""
        ...

    def overwrite(self, connection: Connection) -> bool:
        """See `LogKeeping.overwrite`."""
        ...

    def free_space(self, connection: Connection) -> int:
        """See `LogKeeping.free_space`."""
        ...
