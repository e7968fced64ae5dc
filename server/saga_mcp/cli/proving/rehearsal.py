"""What is rehearsed, as a person wrote it down: calls, and the reads that show the world."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.binding.patterns import BadPattern, check


class SamplesUnusable(Exception):
    """Nothing can be rehearsed with the file; the message says why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call, by its tool's name in the config."""

    tool: str
    args: JsonObject
    differs: tuple[str, ...] = ()
    """Patterns for lines in which the world may differ once it is undone, as whoever runs this declares."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Everything that a file asks for."""

    calls: tuple[Sample, ...]
    """What is done: each by itself, and all of them in this order in one saga."""
    reads: tuple[Sample, ...]
    """What shows the world."""


class _Read(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    tool: str
    args: dict[str, Any] = {}


class _Call(_Read):
    differs: list[str] = []

    @field_validator("differs")
    @classmethod
    def _compile(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                check(pattern)
            except BadPattern as bad:
                raise ValueError(f"not a pattern: {bad}") from bad
        return patterns


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    call: list[_Call]
    read: list[_Read]


def read_samples(path: Path) -> Rehearsal:
    """Read a file of `[[call]]` and `[[read]]` tables, each with `tool` and `args`; a call may have `differs`.

    Raises:
        SamplesUnusable: it is no such file.
    """
    try:
        file = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        said = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False))
        raise SamplesUnusable(f"{path.name}: {'; '.join(said)}") from error
    except (OSError, ValueError) as error:
        raise SamplesUnusable(f"{path.name}: {error}") from error
    calls = tuple(Sample(each.tool, each.args, tuple(each.differs)) for each in file.call)
    reads = tuple(Sample(each.tool, each.args) for each in file.read)
    if not calls or not reads:
        raise SamplesUnusable(f"{path.name}: give at least one [[call]] to rehearse and one [[read]] of the world")
    return Rehearsal(calls, reads)
