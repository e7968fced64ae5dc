"""Whether the server that came up is the one that its preset was made for, and telling whoever runs us if it is not.

Its tools stay as they are: whether what is bound still fits a tool is seen before it is sent (S6.9). What a tool of the
same name *does* may have changed with the version, and that no schema says.
"""

from __future__ import annotations

from dataclasses import dataclass

import mcp_types as types
import structlog

from saga_mcp.tools.presets import load_preset
from saga_mcp.tools.presets.pinning import how_to_stay
from saga_mcp.tools.upstream.declared import DeclaredUpstream, Program

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A server of another name or version than its preset was made for."""

    says: str
    do: str
    """The next move."""


def compared(
    declared: DeclaredUpstream, server: types.Implementation | None, *, before: Misfit | None
) -> Misfit | None:
    """Compare a server that came up with its preset; what was not so `before` is logged.

    Args:
        declared: What the config says.
        server: What it calls itself.
        before: What was found when it came up last.
    """
    if not declared.preset:
        return None
    preset = load_preset(declared.preset)
    name, version = (server.name, server.version) if server else ("", "")
    says = preset.misfit(name, version)
    if not says:
        return None
    words = [declared.place.command, *declared.place.args] if isinstance(declared.place, Program) else []
    do = (
        f"run `saga-mcp check`: it compares every pair with the tools that are there; to stay with what the preset was "
        f"checked with, {how_to_stay(preset, words)} in [upstreams.{declared.name}]"
    )
    found = Misfit(says=f"its preset {preset.name} {says}", do=do)
    if found != before:
        facts = {"upstream": declared.name, "preset": preset.name, "version": version, "range": preset.versions}
        _log.warning("upstream_preset_misfit", **facts, reason=found.says, do=found.do)
    return found
