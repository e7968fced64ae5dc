"""A saga log as it lies there, before anybody uses it: what `saga-mcp doctor` is told, whatever the database."""

from __future__ import annotations

from dataclasses import dataclass

from saga_mcp.log.owners import LivingOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInspection:
    """A saga log as it lies there."""

    exists: bool
    parent_exists: bool
    no_file: bool = False
    """Something else lies there, such as a folder."""
    writable: bool
    """Both the file, where there is one, and its directory, in which SQLite puts files beside it."""
    mode: int
    """Permission bits; 0 where there is no file, or permissions mean nothing."""
    file_system: str
    """Empty: the operating system does not tell."""
    on_network: bool
    free_bytes: int
    size_bytes: int
    """With what SQLite has written beside it and not yet moved into it."""
    sqlite: str
    """Version of the library."""
    journal: str = ""
    epoch: int | None = None
    """Schema number; None where it cannot be read."""
    expected_epoch: int
    """Schema number that this version writes."""
    keys: tuple[str, ...] = ()
    """Names of the keys that something in it is encrypted with."""
    in_clear: int = 0
    """Sagas with values that are not encrypted."""
    foreign: bool = False
    """It is a database, of another program."""
    locked: bool = False
    """Another program holds the write lock for longer than a saga-mcp would."""
    damage: str = ""
    """What SQLite says is wrong with it."""
    alive: tuple[LivingOwner, ...] = ()
    stale_owners: int = 0
    """Locks that dead processes left; the next one that starts removes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInspection:
    """A saga log on a server, as it is found there."""

    trouble: str = ""
    """Why it cannot be looked at, and what to do; all else is unknown then."""
    version: str = ""
    """Of the server."""
    size_bytes: int = 0
    epoch: int | None = None
    """Schema number; None: there is no saga log yet, or nobody could look."""
    expected_epoch: int
    in_recovery: bool = False
    """It is a standby."""
    undurable: tuple[str, ...] = ()
    """Settings of the server without which what it has confirmed may be lost."""
    connections: int = 0
    most_connections: int = 0
    keys: tuple[str, ...] = ()
    """Names of the keys that something in it is encrypted with."""
    in_clear: int = 0
    """Sagas with values that are not encrypted."""

    @property
    def damage(self) -> str:
        """What is wrong with it, so that nobody should open it."""
        return self.trouble

    @property
    def few_connections(self) -> bool:
        """Whether a server or two more would have none left."""
        return bool(self.most_connections) and self.connections > self.most_connections - _SPARE_CONNECTIONS


_SPARE_CONNECTIONS = 12
