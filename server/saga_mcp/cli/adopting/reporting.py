"""What `adopt` tells a person: what is now undoable, what is not, what is hidden, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from saga_mcp.cli.adopting.classifying import Becomes
from saga_mcp.cli.adopting.writing import Adopted
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge.clean import escape
from saga_mcp.tools.upstream.declared import offered_name

COLUMNS = ("SERVER", "TOOLS", "READ", "UNDOABLE", "PERSON/LEFT", "NO RETURN", "HIDDEN", "BY")
_FEW = 6


def rows(servers: Sequence[Adopted], stay: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The table: one row a server."""
    found = [_row(server) for server in servers]
    return [*found, *((name, "", "", "", "", "", "", f"stays as it is: {why}") for name, why in stay.items())]


def _row(server: Adopted) -> tuple[str, ...]:
    classified = server.classified
    if server.is_there:
        return (server.entry, str(len(classified.tools)), "", "", "", "", "", "saga.toml has it already")
    states = (Becomes.READ, Becomes.UNDOABLE, Becomes.LEFT, Becomes.PIVOT, Becomes.HIDDEN)
    numbers = [str(len(classified.of(state))) for state in states]
    preset = classified.preset
    by = "nobody yet" if preset is None else f"preset {preset.name} ({preset.evidence})"
    return (server.entry, str(len(classified.tools)), *numbers, by)


def details(servers: Sequence[Adopted]) -> Iterator[str]:
    """What the numbers of the table stand for."""
    for server in servers:
        classified = server.classified
        yield f"{escape(server.entry)}:"
        if server.is_there:
            yield f"  [upstreams.{server.name}] stays as it is; `saga-mcp check` says what of it is offered"
            continue
        if classified.misfit:
            yield f"  take care: the preset {escape(classified.misfit)}"
        if classified.preset is not None and classified.pinned:
            checked = f"{classified.preset.package} {classified.preset.checked}"
            yield f"  starts whatever version is the newest; the preset was checked with {checked}"
            yield f'  to stay with that, write "{classified.pinned}" in place of the package in saga.toml'
        for becomes in (Becomes.UNDOABLE, Becomes.LEFT, Becomes.PIVOT):
            if tools := classified.of(becomes):
                yield f"  {becomes}: {escape(', '.join(tools))}"
        for each in classified.tools:
            if each.not_restored:
                yield f"    not restored of {escape(each.tool)}: {escape(each.not_restored)}"
        yield from _hidden(server)


def _hidden(server: Adopted) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for each in server.classified.tools:
        if each.becomes is Becomes.HIDDEN:
            by_reason.setdefault(each.why, []).append(each.tool)
    for why, tools in by_reason.items():
        more = f" and {len(tools) - _FEW} more" if len(tools) > _FEW else ""
        yield f"  hidden: {escape(', '.join(tools[:_FEW]))}{more}: {escape(why)}"
    if len(server.classified.of(Becomes.HIDDEN)) == len(server.classified.tools):
        name = escape(server.entry)
        yield f"  nothing of it would be offered: leave it where it is with --skip {name}, or edit saga.toml"


def renamed(servers: Sequence[Adopted], ours: str, permitted: Sequence[str]) -> Iterator[str]:
    """How tools are called from now on, where somebody's permission rules name them.

    Args:
        servers: What is put behind.
        ours: The name of our entry.
        permitted: Permission rules that were found, such as `mcp__fs__write_file`.
    """
    new = {
        f"mcp__{server.entry}__{tool.tool}": f"mcp__{ours}__{offered_name(server.name, tool.tool)}"
        for server in servers
        for tool in server.classified.tools
        if server.is_there or tool.becomes is not Becomes.HIDDEN
    }
    for rule in permitted:
        if rule in new:
            yield f"  {escape(rule)} -> {new[rule]}"


def as_json(servers: Sequence[Adopted], stay: Mapping[str, str]) -> list[JsonValue]:
    """The same for programs."""
    adopted: list[JsonValue] = [_server_json(server) for server in servers]
    staying: list[JsonValue] = [{"server": name, "adopted": False, "why": why} for name, why in stay.items()]
    return [*adopted, *staying]


def _server_json(server: Adopted) -> JsonObject:
    classified = server.classified
    return {
        "server": server.entry,
        "adopted": True,
        "upstream": server.name,
        "is_there": server.is_there,
        "name": classified.listed.server,
        "version": classified.listed.version,
        "preset": classified.preset.name if classified.preset else None,
        "evidence": classified.preset.evidence if classified.preset else None,
        "misfit": classified.misfit or None,
        "checked_with": classified.preset.checked if classified.preset else None,
        "pin": classified.pinned or None,
        "tools": [
            {
                "tool": each.tool,
                "becomes": each.becomes.value,
                "why": each.why,
                "not_restored": each.not_restored or None,
                "offered_as": None if each.becomes is Becomes.HIDDEN else offered_name(server.name, each.tool),
            }
            for each in classified.tools
        ],
    }
