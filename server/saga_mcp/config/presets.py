"""Lays presets under a config: `preset = "NAME"` in `[upstreams.X]` is as if its tables stood in the file.

Before anything is validated, so that a preset's tables and a person's are read, checked and reported in one way; what
is wrong with one that stands in no file is reported with the preset's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import did_you_mean

_WHAT_IT_IS = frozenset({"kind", "undo", "cases"})
_PAIR = _WHAT_IT_IS | {"capture", "guard", "after", "probe", "idempotent", "not_restored"}
"""What belongs together: who says what a tool is, or what undoes it, says all of it."""


def lay_presets(content: Mapping[str, Any], findings: Findings) -> Mapping[str, Any]:
    """Return a config with what its presets say, wherever it does not say something else itself.

    Args:
        content: As the file has it; what is wrong with it is left for later.
        findings: Where problems go, and which keys are a preset's.
    """
    if not isinstance(content.get("tools", {}), dict):
        return content
    laid_upstreams, laid_tools = {**_as_table(content.get("upstreams"))}, {**_as_table(content.get("tools"))}
    for name, written in laid_upstreams.items():
        table = _as_table(written)
        if isinstance(wanted := table.get("preset"), str):
            laid_upstreams[name] = _lay(name, table, wanted, laid_tools, findings)
    return {**content, "upstreams": laid_upstreams, "tools": laid_tools} if laid_upstreams else content


def _lay(name: str, table: dict[str, Any], wanted: str, tools: dict[str, Any], findings: Findings) -> dict[str, Any]:
    from saga_mcp.tools.presets import PresetUnknown, load_preset, preset_names  # noqa: PLC0415 - few configs name one

    try:
        preset = load_preset(wanted)
    except PresetUnknown:
        message = f"there is no preset {wanted}{did_you_mean(wanted, preset_names())}"
        findings.problem(("upstreams", name, "preset"), message)
        return table
    for key, laid in preset.tables_for(name).items():
        if not isinstance(tools.get(key, {}), dict):
            continue
        own = _as_table(tools.get(key))
        base = {each: value for each, value in laid.items() if not (own.keys() & _WHAT_IT_IS and each in _PAIR)}
        for each in base.keys() - own.keys():
            findings.from_preset(("tools", key, each), wanted)
        if key not in tools:
            findings.from_preset(("tools", key), wanted)
        tools[key] = {**base, **own}
    for each in preset.upstream.keys() - table.keys():
        findings.from_preset(("upstreams", name, each), wanted)
    laid_table = {**preset.upstream, **table}
    written: object = table.get("read_only", [])
    if isinstance(written, list):
        own_reads = cast("list[object]", written)
        elsewhere = {key.removeprefix(f"{name}.") for key in tools if key.startswith(f"{name}.")}
        reads = [tool for tool in preset.read_only if tool not in elsewhere]
        for place in range(len(own_reads), len(own_reads) + len(reads)):
            findings.from_preset(("upstreams", name, "read_only", place), wanted)
        laid_table["read_only"] = [*own_reads, *reads]
    return laid_table


def _as_table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
