"""Whose saga it is, and what that lets a caller do (SEMANTICS.md S1.4).

Pure: who a caller is and which teams there are is said by whoever asks. An id is a name, not a permission, so every use
of one goes through `Principal.require`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from saga_mcp.domain.errors import CommitReserved, SagaNotFound, SagaNotYours

_TEAM = "team:"
_LONGEST_NAME = 200
NAME_RULE = f"has 1 to {_LONGEST_NAME} printable characters, no blanks around them, and does not begin with {_TEAM}"


def is_name(text: str) -> bool:
    """Whether a caller or a team may be called so: `NAME_RULE`."""
    shown = text.isprintable() and text == text.strip()
    return 0 < len(text) <= _LONGEST_NAME and shown and not text.startswith(_TEAM)


def owner_of_team(name: str) -> str:
    """The owner of a team's sagas, in the place where another saga has its caller."""
    return f"{_TEAM}{name}"


def team_of(owner: str) -> str:
    """The team that owns a saga; empty: it is one caller's."""
    return owner.removeprefix(_TEAM) if owner.startswith(_TEAM) else ""


class CommitBy(StrEnum):
    """Who may commit a team's saga."""

    OPENER = "opener"
    ANY = "any"


class Use(StrEnum):
    """What a saga is named for."""

    LOOK = "look"
    WORK = "work"
    """To add a step or a mark."""
    COMMIT = "commit"
    UNDO = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a saga is; fixed when it is opened."""

    caller: str
    opener: str = ""
    """Who opened a team's saga."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks."""

    id: str
    operator: bool = False
    """Sees and finishes all sagas, and adds nothing to those of others."""
    teams: Mapping[str, CommitBy] = field(default_factory=dict[str, CommitBy])
    """The teams they are a member of, and who may commit there."""

    @property
    def owners(self) -> tuple[str, ...]:
        """In whose name they may work."""
        return (self.id, *map(owner_of_team, self.teams))

    def owns(self, owner: Owner) -> bool:
        """Whether a saga is theirs, or their team's."""
        return owner.caller in self.owners

    def require(self, saga_id: str, owner: Owner, use: Use) -> None:
        """Let a saga be used, or refuse it.

        Raises:
            SagaNotFound: it is somebody else's, which nobody is told.
            SagaNotYours: an operator sees it and adds nothing to it.
            CommitReserved: a team's saga that only its opener commits.
        """
        if not self.owns(owner):
            if not self.operator:
                raise SagaNotFound(saga_id)
            if use is Use.WORK:
                raise SagaNotYours(saga_id)
        elif use is Use.COMMIT and not self.operator and not self._commits(owner):
            raise CommitReserved(saga_id, owner.opener)

    def _commits(self, owner: Owner) -> bool:
        rule = self.teams.get(team_of(owner.caller), CommitBy.ANY)
        return rule is CommitBy.ANY or owner.opener == self.id
