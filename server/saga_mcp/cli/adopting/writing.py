"""The text of the saga.toml that `adopt` writes: what holds, and in comments what a person may make hold. Pure."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from saga_mcp.cli.adopting.classifying import Becomes, Classified
from saga_mcp.cli.suggesting import AS_OF, Suggestions
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge.clean import escape

_WIDE = 116
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Adopted:
    """One server that is put behind this one."""

    name: str
    """Of its `[upstreams.NAME]`."""
    entry: str
    """Its name in the client's file."""
    keys: JsonObject
    classified: Classified
    suggestions: Suggestions | None
    is_there: bool = False
    """The config has it already."""


def addition(servers: Sequence[Adopted]) -> str:
    """Return what is added to a config that is there; empty where there is nothing."""
    return "".join("\n".join(["", *_server(each), ""]) for each in servers)


def saga_toml(realm: str, source: str, servers: Sequence[Adopted]) -> str:
    """Return the config.

    Args:
        realm: Name of the sagas' log.
        source: Where the servers are from, for people.
        servers: What is put behind.
    """
    head = (
        *_comment(
            f"Written by `saga-mcp adopt` from {source}. `saga-mcp check` tells whether it is right; what the keys "
            "mean is in docs/config.md. Lines that begin with `#` are suggestions: nothing in them holds."
        ),
        "",
        "[saga]",
        f"name = {_value(realm)} # of these sagas' log; keep it when you move this file",
    )
    blocks = ["\n".join(head), *("\n".join(_server(each)) for each in servers)]
    return "\n\n".join(blocks) + "\n"


def _server(server: Adopted) -> Iterator[str]:
    classified, listed = server.classified, server.classified.listed
    yield f"[upstreams.{_key(server.name)}] # {escape(listed.server)} {escape(listed.version)}"
    for key, value in server.keys.items():
        yield f"{key} = {_value(value)}"
    if classified.preset is not None:
        preset = classified.preset
        yield f"preset = {_value(preset.name)} # evidence: {preset.evidence}"
        if classified.misfit:
            yield from _comment(f"Take care: the preset {classified.misfit}.")
        if classified.pinned:
            yield from _comment(
                f"The preset was checked with {preset.package} {preset.checked}, and this starts the newest there is. "
                f'To stay with what was checked, write "{classified.pinned}" in place of the package.'
            )
    own = [each.tool for each in classified.tools if each.becomes is Becomes.READ and each.why != "preset"]
    if own:
        yield f"read_only = {_value([*own])} # by the server's own word"
    yield from _what_it_is(classified)
    yield from _read_suggestions(server)
    yield from _write_suggestions(server)


def _what_it_is(classified: Classified) -> Iterator[str]:
    for becomes, words in (
        (Becomes.UNDOABLE, "Undoable until saga_commit"),
        (Becomes.LEFT, "Left as it is, or for a person, when a saga is undone"),
        (Becomes.PIVOT, "Points of no return"),
    ):
        if tools := classified.of(becomes):
            yield from _comment(f"{words}: {', '.join(tools)}.")
    for each in classified.tools:
        if each.not_restored:
            yield from _comment(f"Not restored of {each.tool}: {each.not_restored}.")


def _read_suggestions(server: Adopted) -> Iterator[str]:
    hidden = set(server.classified.of(Becomes.HIDDEN))
    tools = [tool for tool in server.classified.listed.tools if tool.name in hidden]
    by_hint = [tool.name for tool in tools if tool.annotations is not None and tool.annotations.read_only_hint is True]
    known = server.suggestions.read_only if server.suggestions else frozenset[str]()
    by_catalogue = [tool.name for tool in tools if tool.name in known and tool.name not in by_hint]
    if by_hint:
        yield f"# read_only = {_value([*by_hint])} # the server itself says that these only read"
    if by_catalogue:
        yield f"# read_only = {_value([*by_catalogue])} # by a catalogue of {AS_OF}"


def _write_suggestions(server: Adopted) -> Iterator[str]:
    reads = {
        tool.name
        for tool in server.classified.listed.tools
        if tool.annotations is not None and tool.annotations.read_only_hint is True
    }
    hidden = [tool for tool in server.classified.of(Becomes.HIDDEN) if tool not in reads]
    if not hidden:
        return
    yield "#"
    yield from _comment(
        "Not offered, because nobody has said what these do: read_only, compensable with an undo, or a point of no "
        "return, which is the cautious answer for whatever changes something."
    )
    said = server.suggestions.write if server.suggestions else {}
    for tool in hidden:
        if tool in said:
            yield from _comment(f"{tool}, by a catalogue of {AS_OF}: {said[tool]}")
        yield f"# [tools.{_key(f'{server.name}.{tool}')}]"
        yield '# kind = "pivot"'


def _comment(text: str) -> Iterable[str]:
    return textwrap.wrap(
        escape(text), _WIDE, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: JsonValue) -> str:
    """Write a value as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    # JSON's escapes are TOML's, but for this one character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
