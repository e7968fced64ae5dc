"""Python tools as they are served: what the author registered, and the pair that is frozen at an intent.

Below the config and below the adapter: the config changes traits before it hands these down, and whoever has only a
registry gets the same pairs without any config.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from saga_mcp.domain.repeats import OnRepeat
from saga_mcp.domain.values import JsonValue, Kind, OnError
from saga_mcp.tools.answer_rules import AnswerRules
from saga_mcp.tools.binding import TemplateError, compile_template
from saga_mcp.tools.pair import Capture, Guard, Pair, ReadCall, UndoEntry
from saga_mcp.tools.secret import secrets_in, with_secrets
from saga_mcp.tools.variables import BEFORE_INTENT
from saga_tools import PairError, Problem, ToolRegistry
from saga_tools.server import ErrorMeans, RegisteredRead, RegisteredTool, RegisteredUndo, registered, usual_retry

_CEL_WORDS = frozenset({"true", "false", "null"})
"""Python parameters may have these names; after a dot CEL does not read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTool:
    """One function of a registry."""

    name: str
    """Name in the config, e.g. `travel.charge`."""
    registered: RegisteredTool
    pair: Pair
    error_means: ErrorMeans = "unknown"
    governed: bool = True
    """Whether its calls are steps; the others may only be called by an undo."""
    offered: bool = True
    takes_step_key: bool = False
    on_repeat: OnRepeat = OnRepeat.RUN

    @property
    def rules(self) -> AnswerRules:
        """How its errors are read; where it returns, the function has done its work."""
        return AnswerRules(error_means=self.error_means)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRegistry:
    """One `[python.NAME]`."""

    name: str
    source: ToolRegistry
    tools: tuple[DeclaredTool, ...]

    @property
    def target_id(self) -> str:
        """Where its tools act."""
        return target_id(self.source.name or self.name)


def target_id(name: str) -> str:
    """Return the target of a registry's tools: they act where a registry of that name acts (S1.2)."""
    return hashlib.sha256(f"python:{name}".encode()).hexdigest()[:32]


def declare(name: str, source: ToolRegistry, *, on_error: OnError = OnError.ABORT) -> DeclaredRegistry:
    """Return a registry as its author paired it.

    Args:
        name: Its name in the config.
        source: What the author registered.
        on_error: Agents may name their calls where a failed one can be repeated (S8.2).

    Raises:
        PairError: Something is wrong with it.
    """
    if problems := problems_of(source):
        raise PairError(problems)
    where = target_id(source.name or name)
    tools = tuple(
        DeclaredTool(
            name=f"{name}.{tool.name}",
            registered=tool,
            pair=_pair(name, tool, where),
            error_means=tool.traits.error_means,
            takes_step_key=on_error is OnError.HOLD or tool.traits.on_repeat != "run",
            on_repeat=OnRepeat(tool.traits.on_repeat),
        )
        for tool in registered(source).tools.values()
    )
    return DeclaredRegistry(name=name, source=source, tools=tools)


TOLD = "whoever is refused what a saga holds is told what that is"


def problems_of(source: ToolRegistry) -> list[Problem]:
    """Return all that is wrong with a registry, with the expressions in its traits, which only the server can read."""
    return source.check() or [each for tool in registered(source).tools.values() for each in _resource_problems(tool)]


def _resource_problems(tool: RegisteredTool) -> Iterator[Problem]:
    resource, known = tool.traits.resource, tool.arguments.names
    try:
        paths = compile_template(resource, variables=BEFORE_INTENT).paths
    except TemplateError as error:
        for each in error.problems:
            yield Problem(tool.name, f"resource: {each}", "write a text with `${args.NAME}`, of parameters")
        return
    named = dict.fromkeys(str(path[1]) for path in paths if path[0] == "args" and len(path) > 1)
    for name in named:
        if name not in known:
            yield Problem(
                tool.name,
                f"resource names `{name}`, which is no parameter",
                f"use {', '.join(known) or 'a text without it'}",
            )
    for name in secrets_in(resource, tool.traits.secret):
        yield Problem(
            tool.name, f"resource names `{name}`, which is secret, and {TOLD}", "name another, or an id of it"
        )


def _pair(name: str, tool: RegisteredTool, where: str) -> Pair:
    traits = tool.traits
    pair = Pair(
        tool=f"{name}.{tool.name}",
        kind=Kind(traits.kind),
        undo=() if tool.undo is None else (_entry(name, tool.undo, where),),
        safe_if_absent=tool.undo is not None and tool.undo.traits.safe_if_absent,
        idempotent=traits.idempotent,
        has_probe=tool.probe is not None,
        retry=usual_retry(traits.kind) if traits.retry is None else traits.retry,
        timeout_s=float(traits.timeout_s),
        hard_deadline_s=float(traits.deadline_s),
        settle_s=float(traits.settle_s),
        approval=traits.approval,
        resource=traits.resource,
        target_id=where,
        capture=None if tool.capture is None else Capture(call=_read(name, tool.capture, where), null_is_absent=True),
        guard=_guard(name, tool, where),
    )
    return with_secrets(pair, traits.secret, seen_by_probe(tool))


def seen_by_probe(tool: RegisteredTool) -> tuple[str, ...]:
    """Return the arguments that its probe takes, which stand in no pair."""
    return () if tool.probe is None else tool.probe.parameters


def _guard(name: str, tool: RegisteredTool, where: str) -> Guard | None:
    if tool.guard is not None:
        return Guard(
            call=_read(name, tool.guard, where),
            as_left="${now.result == 'as_left'}",
            as_before="${now.result == 'as_before'}",
        )
    return Guard(ignore_order=tool.traits.ignore_order) if tool.traits.guard is not None else None


def _read(name: str, read: RegisteredRead, where: str) -> ReadCall:
    return ReadCall(
        tool=f"{name}.{read.name}",
        args={parameter: _path(parameter) for parameter in read.arguments.names},
        target_id=where,
    )


def _entry(name: str, undo: RegisteredUndo, where: str) -> UndoEntry:
    arguments: dict[str, JsonValue] = {parameter: _path(parameter) for parameter in undo.arguments.names}
    return UndoEntry(
        tool=f"{name}.{undo.name}",
        args=arguments,
        target_id=where,
        idempotent=undo.traits.idempotent,
        needs_result=undo.traits.needs_result,
        timeout_s=float(undo.traits.timeout_s),
        retry=undo.traits.retry,
    )


def _path(parameter: str) -> str:
    plain = parameter.isascii() and parameter not in _CEL_WORDS
    return f"${{args.{parameter}}}" if plain else f'${{args["{parameter}"]}}'
