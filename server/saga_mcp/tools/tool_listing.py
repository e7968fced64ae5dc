"""How a tool describes itself to agents, before the saga facts are added. Part of the tools' port."""

from __future__ import annotations

from dataclasses import dataclass

from saga_mcp.domain.repeats import OnRepeat
from saga_mcp.domain.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """How a tool describes itself to agents, before the saga facts are added."""

    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    title: str = ""
    icons: tuple[JsonObject, ...] = ()
    meta: JsonObject | None = None
    """What its server adds to it, for clients that know what it means."""
    open_world: bool = True
    """Whether it reaches beyond what its server holds; the other hints follow from what the tool is here."""
    takes_step_key: bool = False
    """Whether agents are offered `step_key` (S8.2)."""
    on_repeat: OnRepeat = OnRepeat.RUN
    """What a call gets that equals one whose answer the caller has (S8.3)."""
    missing: bool = False
    """The server that should have it was reached and does not: agents do not see it."""
