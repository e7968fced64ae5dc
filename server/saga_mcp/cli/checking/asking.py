"""Asks the upstreams of a config what their tools are, and puts together what is known of all tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from saga_mcp.cli.asking import ask_all
from saga_mcp.cli.checking.places import Shape
from saga_mcp.cli.checking.schemas import plain
from saga_mcp.cli.output import count
from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.declared import DeclaredRegistry
from saga_mcp.tools.upstream.asking import Answer, Listed
from saga_mcp.tools.upstream.declared import DeclaredUpstream
from saga_tools.server import registered


async def ask(upstreams: Sequence[DeclaredUpstream], told: Callable[[str], None]) -> dict[str, Answer]:
    """Start every upstream to list its tools, and end it again.

    Args:
        upstreams: As they are declared.
        told: Called with a line for each step of it, for somebody who waits.
    """
    told(f"asking {count(len(upstreams), 'upstream')}: {', '.join(each.name for each in upstreams)}")
    return await ask_all({each.name: each.place for each in upstreams}, told)


def shapes_of(
    registries: Iterable[DeclaredRegistry], upstreams: Iterable[DeclaredUpstream], answers: Mapping[str, Answer]
) -> dict[str, Shape]:
    """What is known of the calls and answers of every tool, by its name in the config."""
    shapes: dict[str, Shape] = {}
    for registry in registries:
        source = registered(registry.source)
        for undo in source.callables.values():
            shapes[f"{registry.name}.{undo.name}"] = _shape(undo.arguments.schema)
        for function in source.tools.values():
            gives = None if function.wraps_result else function.output_schema
            shapes[f"{registry.name}.{function.name}"] = _shape(function.input_schema, gives)
    for upstream in upstreams:
        answer = answers.get(upstream.name)
        if not isinstance(answer, Listed):
            continue
        reads_itself = {tool.tool for tool in upstream.tools if tool.rules.result}
        declared = {tool.tool for tool in upstream.tools}
        for tool in answer.tools:
            otherwise_read = tool.name in reads_itself or (tool.name not in declared and bool(upstream.rules.result))
            gives = None if otherwise_read else tool.output_schema
            shapes[f"{upstream.name}.{tool.name}"] = _shape(tool.input_schema, gives)
    return shapes


def _shape(takes: Mapping[str, Any], gives: Mapping[str, Any] | None = None) -> Shape:
    return Shape(plain(cast("JsonObject", takes)), plain(cast("JsonObject", gives or {})))
