"""What a catalogue of widely used servers says of tools that no preset knows: for comments, never for a config.

Only of servers for which there is no preset. Rows that were only derived from names are not in it; of the others each
says how it is known, which is mostly from schemas and sources, not by running.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypedDict, cast

AS_OF = "2026-11"


class _Server(TypedDict):
    read_only: list[str]
    write: dict[str, tuple[str, str, str, str]]
    """By tool: its kind, what may undo it, how that is known, what is not restored or else to be minded."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What is said of one server."""

    package: str
    read_only: frozenset[str]
    write: dict[str, str]
    """By tool, in words: what kind it may be, how that is known, what may undo it, and what that leaves."""


def suggestions_for(words: Sequence[str]) -> Suggestions | None:
    """Return what is said of the server whose package is among the words of a command."""
    for package, server in _catalogue().items():
        if any(is_package(package, word) for word in words):
            said = {tool: _sentence(*row) for tool, row in server["write"].items()}
            return Suggestions(package, frozenset(server["read_only"]), said)
    return None


def _sentence(kind: str, undo: str, known: str, mind: str) -> str:
    return f"{kind} ({known}){f': {undo}' if undo else ''}{f'. Mind: {mind}' if mind else ''}"


_READS = re.compile(
    r"(?i)(^|[_./-]|api-)(get|list|read|search|find|fetch|query|describe|show|view|lookup|count|check|status|diff|log)"
    r"([_./A-Z-]|$)"
)


def sounds_read_only(tool: str) -> bool:
    """Return whether a tool's name sounds as if it only read; that proves nothing."""
    return _READS.search(tool) is not None


def is_package(package: str, word: str) -> bool:
    """Return whether a word of a command names a package, with or without a version."""
    return word == package or word.startswith(tuple(f"{package}{mark}" for mark in ("@", "==", "[", ":")))


@cache
def _catalogue() -> dict[str, _Server]:
    text = resources.files("saga_mcp.cli").joinpath("suggestions.json").read_text(encoding="utf-8")
    return cast("dict[str, _Server]", json.loads(text))
