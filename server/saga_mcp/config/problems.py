"""What is wrong with a config, placed and said so that a person can put it right.

ConfigError
├─ ConfigMissing     there is no file where one was looked for
└─ ConfigInvalid     there is, and nothing is served until every problem in it is gone
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from saga_mcp.domain.errors import SagaError

KeyPath: TypeAlias = tuple[str | int, ...]
"""From the root of the file to a key or an element: `("tools", "fs.write_file", "undo", 0, "when")`."""

NOT_YET = "not supported by this version yet"

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong, or worth a warning.

    Attributes:
        key: Where, as it is written in the file; empty for the file as a whole.
        message: What is wrong and what to do.
        line: Line of the file, from 1, where it could be told.
    """

    key: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.key or 'file'}: {self.message}"


class ConfigError(SagaError):
    """Nothing can be served with this config."""


class ConfigMissing(ConfigError):
    """There is no config file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"There is no config at {path}. Write one, or name it with --config FILE or SAGA_MCP_CONFIG=FILE."
        )


class ConfigInvalid(ConfigError):
    """The config has problems; all of them are listed."""

    def __init__(self, path: Path, problems: Sequence[ConfigProblem], warnings: Sequence[ConfigProblem] = ()) -> None:
        self.path = path
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        super().__init__(report(path, problems, warnings))


def report(path: Path, problems: Sequence[ConfigProblem], warnings: Sequence[ConfigProblem]) -> str:
    """Return everything that was found, one line each, with a count first."""
    rows = [("error", problem) for problem in problems] + [("warn", warning) for warning in warnings]
    width = max((len(problem.key) for _, problem in rows), default=0)
    head = f"{path.name}: {_count(problems, 'error')}, {_count(warnings, 'warning')}"
    lines = [
        f" {level:<5} {problem.key:<{width}}  {problem.message}" + (f" (line {problem.line})" if problem.line else "")
        for level, problem in rows
    ]
    return "\n".join([head, *lines])


def show_key(path: KeyPath) -> str:
    """Return a key path as the file writes it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += "." * bool(text) + (part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False))
    return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for the closest known name, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def unknown(sentence: str, name: str, known: Iterable[str]) -> str:
    """Return a sentence that lacks its mark, with the closest known name where there is one."""
    return f"{sentence}{did_you_mean(name, known) or '.'}"


def _count(found: Sequence[ConfigProblem], noun: str) -> str:
    return f"{len(found)} {noun}{'' if len(found) == 1 else 's'}"
