"""What each tool of a server is, and who says so. Pure.

Only a preset makes a tool undoable. What a server says of itself, what its names sound like and what the catalogue of
other people's servers knows are suggestions, for a person to take or leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import mcp_types as types

from saga_mcp.cli.suggesting import is_package, sounds_read_only
from saga_mcp.domain.values import JsonObject
from saga_mcp.tools.presets import Preset, load_preset, preset_names
from saga_mcp.tools.presets.pinning import pinned
from saga_mcp.tools.upstream.asking import Listed


class Becomes(StrEnum):
    """What a tool is once it is adopted."""

    READ = "read"
    UNDOABLE = "undoable"
    PIVOT = "point of no return"
    LEFT = "person/left"
    """Its undo is a person's work, or what it did stays."""
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Judged:
    """One tool."""

    tool: str
    becomes: Becomes
    why: str
    not_restored: str = ""


@dataclass(frozen=True, slots=True)
class Classified:
    """One server."""

    listed: Listed
    preset: Preset | None
    misfit: str
    """Why the preset may not fit this version; empty if it does."""
    pinned: str
    """What keeps the command to the version that the preset was checked with; empty where it names one itself."""
    tools: tuple[Judged, ...]

    def of(self, becomes: Becomes) -> list[str]:
        """The tools that become this."""
        return [each.tool for each in self.tools if each.becomes is becomes]


def classify(listed: Listed, words: Sequence[str], *, trust_hints: bool) -> Classified:
    """Judge every tool of a server.

    Args:
        listed: What it answered.
        words: Its command and arguments, or its URL: a preset's package is looked for in them.
        trust_hints: Take the server's word for which of its tools only read.
    """
    preset = _preset_for(listed, words)
    judged = tuple(_judge(tool, preset, trust_hints=trust_hints) for tool in listed.tools)
    judged += tuple(Judged(name, Becomes.HIDDEN, f"it cannot be read: {why}") for name, why in listed.left_out.items())
    misfit = preset.misfit(listed.server, listed.version) if preset else ""
    return Classified(listed, preset, misfit, pinned(preset, words) if preset else "", judged)


def _preset_for(listed: Listed, words: Sequence[str]) -> Preset | None:
    """The preset of its name or package that knows most of its tools; more than half of them, for names are cheap."""
    own = {tool.name for tool in listed.tools}

    def known(preset: Preset) -> int:
        return len(own & {*preset.tools, *preset.read_only})

    presets = [load_preset(name) for name in preset_names()]
    named = [
        each
        for each in presets
        if each.server == listed.server or any(is_package(each.package, word) for word in words)
    ]
    best = max(named, key=known, default=None)
    return best if best is not None and 2 * known(best) > len(own) else None


def _judge(tool: types.Tool, preset: Preset | None, *, trust_hints: bool) -> Judged:
    hint = tool.annotations is not None and tool.annotations.read_only_hint is True
    if preset is not None:
        if tool.name in preset.read_only:
            return Judged(tool.name, Becomes.READ, "preset")
        if tool.name in preset.tools:
            becomes, residue = _by_table(preset.tools[tool.name])
            return Judged(tool.name, becomes, "preset", residue)
    if hint and trust_hints:
        return Judged(tool.name, Becomes.READ, "the server itself says so")
    known = "" if preset is None else "the preset does not know it; "
    if hint:
        return Judged(tool.name, Becomes.HIDDEN, f"{known}it says of itself that it only reads: --trust-hints takes it")
    sounds = "sounds as if it only read" if sounds_read_only(tool.name) else "may change something"
    return Judged(tool.name, Becomes.HIDDEN, f"{known}{sounds}: say in [tools] what it is")


def _by_table(table: JsonObject) -> tuple[Becomes, str]:
    """What a table of a preset makes of its tool; of several cases, what is best about it."""
    cases = table.get("cases")
    tables = [case for case in cases if isinstance(case, dict)] if isinstance(cases, list) else [table]
    kinds = [_one(each) for each in tables if each.get("kind") != "read_only"]
    said = [str(each["not_restored"]) for each in (table, *tables) if each.get("not_restored")]
    best = next((each for each in (Becomes.UNDOABLE, Becomes.LEFT, Becomes.PIVOT) if each in kinds), Becomes.READ)
    return best, "; ".join(dict.fromkeys(said))


def _one(table: JsonObject) -> Becomes:
    if table.get("kind") in {"pivot", "retriable"}:
        return Becomes.PIVOT
    undo = table.get("undo")
    entries = undo if isinstance(undo, list) else [undo]
    acts = any(isinstance(each, dict) and "tool" in each for each in entries)
    return Becomes.UNDOABLE if acts else Becomes.LEFT
