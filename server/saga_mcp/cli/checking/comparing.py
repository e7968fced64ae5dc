"""Compares tools with what the config takes them for: whether they are there, their names, what they say of themselves.

Pure. What a server says of its own tools is a reason to look again, and never decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from saga_mcp.cli.checking.places import Shape, table_at
from saga_mcp.cli.checking.schemas import is_open, properties
from saga_mcp.cli.suggesting import AS_OF, Suggestions, sounds_read_only, suggestions_for
from saga_mcp.config.findings import Findings
from saga_mcp.config.problems import KeyPath, did_you_mean
from saga_mcp.domain.values import Kind
from saga_mcp.edge.control import CONTROL_NAMES
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.presets import load_preset
from saga_mcp.tools.upstream.declared import LONGEST_NAME, DeclaredUpstream, DeclaredUpstreamTool, Program
from saga_mcp.tools.upstream.schema import InputSchema

if TYPE_CHECKING:
    import mcp_types as types

    from saga_mcp.tools.upstream.asking import Listed


@dataclass(frozen=True, slots=True)
class Comparison:
    """One upstream and what it answered."""

    upstream: DeclaredUpstream
    listed: Listed
    content: Mapping[str, object]
    """The config."""
    shapes: Mapping[str, Shape]
    called: frozenset[str]
    """Tools that some undo calls."""
    findings: Findings

    def run(self) -> None:
        """Note everything that does not fit."""
        name = self.upstream.name
        if self.upstream.preset:
            self._preset(self.upstream.preset)
        tools = {tool.name: tool for tool in self.listed.tools}
        for declared in self.upstream.tools:
            path = self._path(declared.tool)
            tool = tools.get(declared.tool)
            if tool is not None:
                self._names(path, declared)
                self._hints(path, declared.pair, tool)
                self._fixed_arguments(path, declared.pair)
            elif declared.tool in self.listed.left_out:
                continue
            elif not self.findings.is_presets(path):
                hint = did_you_mean(declared.tool, tools)
                self.findings.problem(path, f"{name} has no tool {declared.tool}{hint}")
        for left_out, why in self.listed.left_out.items():
            self.findings.warn(("upstreams", name), f"its tool {left_out} cannot be read and is left out: {why}")
        self._undeclared(tools)

    def _preset(self, name: str) -> None:
        preset = load_preset(name)
        key: KeyPath = ("upstreams", self.upstream.name, "preset")
        if misfit := preset.misfit(self.listed.server, self.listed.version):
            self.findings.warn(key, f"the preset {misfit}")
        if not {tool.name for tool in self.listed.tools} & {*preset.tools, *preset.read_only}:
            self.findings.problem(key, f"{self.upstream.name} has none of the tools of the preset {name}")

    def _path(self, tool: str) -> KeyPath:
        """Where the config speaks of a tool."""
        name = self.upstream.name
        if f"{name}.{tool}" in table_at(self.content, "tools"):
            return ("tools", f"{name}.{tool}")
        reads = table_at(self.content, "upstreams", name).get("read_only")
        if isinstance(reads, list) and tool in reads:
            return ("upstreams", name, "read_only", cast("list[object]", reads).index(tool))
        return ("upstreams", name)

    def _names(self, path: KeyPath, declared: DeclaredUpstreamTool) -> None:
        if not declared.listed:
            return
        offered = declared.offered
        if offered in CONTROL_NAMES:
            message = f"would be offered as {offered}, which is a tool of saga-mcp itself: give its upstream a prefix"
            self.findings.problem(path, message)
        prefix = self.upstream.prefix
        if len(f"{prefix}_{declared.tool}" if prefix else declared.tool) > LONGEST_NAME:
            self.findings.warn(path, f"its name is cut: agents see {offered}; a shorter prefix may keep it whole")
        if "saga_id" in properties(self.shapes[declared.pair.tool].takes) and declared.pair.kind is not Kind.READ_ONLY:
            self.findings.warn(path, "takes a saga_id of its own; agents find ours as saga__saga_id")

    def _hints(self, path: KeyPath, pair: Pair, tool: types.Tool) -> None:
        hints = tool.annotations
        if hints is None:
            return
        kinds = {case.pair.kind for case in pair.cases} or {pair.kind}
        said = "readOnlyHint = false" if hints.read_only_hint is False else "destructiveHint = true"
        if kinds == {Kind.READ_ONLY} and (hints.read_only_hint is False or hints.destructive_hint is True):
            self.findings.warn(path, f"is said to read only, and its server says that it changes something ({said})")
        elif Kind.READ_ONLY not in kinds and hints.read_only_hint is True:
            self.findings.warn(
                path, 'its server says that it only reads (readOnlyHint = true): if so, say kind = "read_only"'
            )
        if pair.idempotent and hints.idempotent_hint is False:
            self.findings.warn(path, "is said to be idempotent, and its server says that it is not")

    def _fixed_arguments(self, path: KeyPath, pair: Pair) -> None:
        """What is said of arguments by their names: what the server sets itself, and what is secret."""
        taken = self.shapes[pair.tool].takes
        known = properties(taken)
        named = {"key_arg": [pair.key_arg] if pair.key_arg else [], "force": [*pair.force], "secret": [*pair.secret]}
        for word, names in named.items():
            where: KeyPath = (*path, word)
            for name in names:
                if name not in known and not is_open(taken):
                    message = f"{pair.tool} has no argument {name}{did_you_mean(name, known)}"
                    self.findings.problem((*where, name) if word == "force" else where, message)
        schema = InputSchema({"type": "object", "properties": {**known}})
        for said in schema.problems(schema.decoded(pair.force)):
            self.findings.problem((*path, "force"), f"{pair.tool} does not take this: {said}")

    def _undeclared(self, tools: Mapping[str, types.Tool]) -> None:
        """Tools that nobody spoke of, each that may write with what is said of it."""
        name = self.upstream.name
        known = {tool.tool for tool in self.upstream.tools} | {tool.partition(".")[2] for tool in self.called}
        rest = {each: tool for each, tool in tools.items() if each not in known}
        reads = [each for each, tool in rest.items() if tool.annotations and tool.annotations.read_only_hint is True]
        path: KeyPath = ("upstreams", name)
        if reads:
            named = ", ".join(f'"{each}"' for each in reads)
            self.findings.warn(
                path, f"not offered: {', '.join(reads)}. The server says that they only read: read_only = [{named}]"
            )
        catalogue = suggestions_for(self._words())
        for each, tool in rest.items():
            if each not in reads:
                self.findings.warn(path, f"not offered: {each}. {_suggestion(tool, catalogue)}")

    def _words(self) -> list[str]:
        place = self.upstream.place
        return [place.command, *place.args] if isinstance(place, Program) else [place.url]


def _suggestion(tool: types.Tool, catalogue: Suggestions | None) -> str:
    """What may be said of a tool of which the config says nothing."""
    if catalogue is not None and tool.name in catalogue.write:
        return f"The catalogue of {AS_OF} says {catalogue.write[tool.name]}; try that before you believe it"
    reads = f'read_only = ["{tool.name}"]'
    if catalogue is not None and tool.name in catalogue.read_only:
        return f"The catalogue of {AS_OF} says that it only reads: {reads}"
    if tool.annotations is not None and tool.annotations.destructive_hint is True:
        return "The server says that it destroys something: say in [tools] what undoes it, or that it is a pivot"
    if sounds_read_only(tool.name):
        return f"It sounds as if it only read: if so, {reads}"
    return "Say in [tools] what undoes it, or that it is a pivot"
