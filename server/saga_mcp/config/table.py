"""What all tables of `saga.toml` have in common, apart from their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True, slots=True)
class Clash:
    """Keys of a table that are right each by itself and do not go together."""

    message: str
    keys: frozenset[str]
    """Which; where one of them cannot be read, nothing can be said."""


class Table(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def clashes(self) -> Iterator[Clash]:
        """What of this table does not go together.

        Not a validator: what is wrong with the whole would keep its parts from being looked at.
        """
        yield from ()
