"""Configs in which a person has to allow what a tool does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from saga_mcp.tools.declared import DeclaredRegistry


def asking(
    condition: str | bool = True,  # noqa: FBT001, FBT002 - as in the config
    *,
    of: str = "charge",
) -> Callable[[DeclaredRegistry], DeclaredRegistry]:
    """What gives the tool `of` its `approval`."""

    def adjust(declared: DeclaredRegistry) -> DeclaredRegistry:
        tools = [
            replace(tool, pair=replace(tool.pair, approval=condition)) if tool.registered.name == of else tool
            for tool in declared.tools
        ]
        return replace(declared, tools=tuple(tools))

    return adjust
