"""Upstream MCP servers as the config declares them: how each is reached, and what its tools are.

Below the config and below the adapter, like `tools.declared` for Python tools.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from saga_mcp.domain.repeats import OnRepeat
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.pair import Pair

Scope: TypeAlias = Literal["host", "shared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A server that we start and speak to over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What the config declares, filled in; besides it the program gets what every program needs, such as PATH."""
    cwd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server that runs elsewhere and speaks streamable HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredUpstreamTool:
    """One tool that is governed, or read."""

    tool: str
    """Its own name at the upstream."""
    offered: str
    """The name under which agents see it."""
    pair: Pair
    rules: AnswerRules
    listed: bool = True
    """Whether agents see it."""
    takes_step_key: bool = False
    on_repeat: OnRepeat = OnRepeat.RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredUpstream:
    """One `[upstreams.NAME]`."""

    name: str
    place: Program | Endpoint
    target_id: str
    scope: Scope
    prefix: str
    rules: AnswerRules
    """Of tools that are not declared, which only an undo may call."""
    tools: tuple[DeclaredUpstreamTool, ...] = ()
    trusts_hints: bool = False
    """Whether what it calls read-only itself is offered so, declared or not."""
    one_at_a_time: bool = False
    """Whether its calls wait for each other, because it loses effects of those that overlap."""
    preset: str = ""
    """Which shipped pairs are laid under what the config says; empty where none are."""


def target_id(*where: object) -> str:
    """Return the target of an upstream's tools (S1.2): where it lives, as the config writes it, without secrets."""
    text = json.dumps(["upstream", *where], ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


LONGEST_NAME = 48
"""Clients add prefixes of their own, and 64 is their limit (DESIGN.md 5.3)."""
_HASH_CHARACTERS = 6


def offered_name(prefix: str, tool: str) -> str:
    """Return the name under which agents see a tool: what every client accepts, and cut with a hash where too long."""
    whole = f"{prefix}_{tool}" if prefix else tool
    plain = "".join(char if char.isascii() and char.isalnum() else "_" for char in whole)
    if len(plain) <= LONGEST_NAME:
        return plain
    mark = hashlib.sha256(whole.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{plain[: LONGEST_NAME - _HASH_CHARACTERS - 1]}_{mark}"
