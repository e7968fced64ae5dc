"""What was asked and what was answered, as callers have it; and all that a judge gets to see."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.http.serving import Answer
from tests.world.reading import Line

from saga_mcp.domain.state import Saga

SAGA_ID = re.compile(r"sg-[0-9a-z]{27}")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A call as an agent means it; what it makes once more is the same call."""

    caller: str
    tool: str
    arguments: Mapping[str, Any]
    tag: str = ""
    """Stands in the arguments, and nowhere else; empty: a control tool."""

    @property
    def saga_id(self) -> str:
        return str(self.arguments.get("saga_id", ""))


@dataclass(frozen=True, kw_only=True)
class Said:
    """One sending of a call, and what came back."""

    asked: Asked
    pid: int
    began: int
    """Lines that the world had when it was sent."""
    ended: int
    """And when its answer was there."""
    trouble: str = ""
    """Why there is no answer."""
    is_error: bool = False
    text: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    structured: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, asked: Asked, pid: int, began: int, ended: int, answer: Answer) -> Said:
        return cls(
            asked=asked,
            pid=pid,
            began=began,
            ended=ended,
            is_error=answer.is_error,
            text=answer.text,
            facts=answer.facts,
            structured=answer.structured or {},
        )

    @property
    def code(self) -> str:
        return str(self.facts.get("code", ""))

    @property
    def saga_id(self) -> str:
        return str(self.facts.get("id", ""))

    @property
    def state(self) -> str:
        return str(self.facts.get("state", ""))

    @property
    def step(self) -> int:
        return int(self.facts.get("step", 0))

    @property
    def named(self) -> set[str]:
        """Every saga that the answer names, wherever it does."""
        whole = f"{self.text}{json.dumps(self.facts)}{json.dumps(self.structured)}"
        return set(SAGA_ID.findall(whole))

    def told(self) -> str:
        what = self.trouble or self.code or "ok"
        return (
            f"{self.began}-{self.ended} {self.asked.caller} {self.asked.tool}({self.asked.arguments}) at {self.pid}: "
            f"{what} {self.saga_id[:7]}.{self.step} {self.facts.get('summary') or self.state}"
        )


@dataclass(frozen=True)
class Verdict:
    """What a person said of an item, and when."""

    saga_id: str
    step: int
    kind: str
    verb: str
    at: int = 0
    """Lines that the world had before it was said."""
    sure: bool = True
    """Whether it is known to have been heard; else it may have been."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a schedule leaves: the world, the records, and what people were told and said."""

    lines: Sequence[Line]
    sagas: Mapping[str, Saga]
    said: Sequence[Said]
    verdicts: Sequence[Verdict]
    survivors: frozenset[int]
    """Pids of servers that were never killed."""
    callers: Mapping[str, frozenset[str]]
    """Whom a caller may hear of, by caller: owners of sagas."""
