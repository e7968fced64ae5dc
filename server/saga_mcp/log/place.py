"""Where a saga log lies: a file of SQLite, or a database of a PostgreSQL server.

What this machine keeps beside a log (who is alive here, what tools upstreams have, who looked at values) lies beside
the file, or, where the log is on a server, in the user's data folder under a name of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A SQLite file, absolute and without symbolic links."""

    path: Path

    @property
    def name(self) -> str:
        """As people know it."""
        return str(self.path)

    @property
    def beside(self) -> Path:
        """The path beside which this machine's own files lie."""
        return self.path

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """A database of a PostgreSQL server."""

    url: str = field(repr=False)
    """Holds a password, as a rule: for nobody's eyes."""
    name: str
    """As people know it: host, port and database, and nothing else of the URL."""
    beside: Path
    """The path, of no file, beside which this machine's own files lie; its folder may have to be made."""

    def __str__(self) -> str:
        return self.name


LogPlace: TypeAlias = FilePlace | ServerPlace


def is_absent(place: LogPlace) -> bool:
    """Whether there is no log yet, as far as that can be told without asking a server."""
    return isinstance(place, FilePlace) and not place.path.is_file()
