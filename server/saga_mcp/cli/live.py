"""What `check` finds where it asks the upstreams: whether they are what the config, or a preset, takes them for.

Names and arguments are compared with the schemas that the servers list; no tool is called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from saga_mcp.config.problems import ConfigProblem, did_you_mean, show_key
from saga_mcp.domain.values import JsonObject, PartAction
from saga_mcp.tools.pair import Pair
from saga_mcp.tools.presets import load_preset
from saga_mcp.tools.upstream.declared import DeclaredUpstream, Program

if TYPE_CHECKING:
    import mcp_types as types

    from saga_mcp.cli.adopting.asking import Listed


@dataclass(frozen=True, slots=True)
class Checked:
    """What asking the upstreams has shown."""

    problems: tuple[ConfigProblem, ...]
    warnings: tuple[ConfigProblem, ...]


def check_live(upstreams: tuple[DeclaredUpstream, ...]) -> Checked:
    """Ask every upstream for its tools, and compare them with what is declared."""
    import anyio  # noqa: PLC0415 - only where there are upstreams

    from saga_mcp.cli.adopting.asking import Listed, ask_all  # noqa: PLC0415 - see above
    from saga_mcp.cli.adopting.client_file import Entry  # noqa: PLC0415 - see above

    entries = [Entry(upstream.name, _as_entry(upstream)) for upstream in upstreams]
    answers = anyio.run(lambda: ask_all(entries, Path.cwd(), {}, client_fills=False))
    problems: list[ConfigProblem] = []
    warnings: list[ConfigProblem] = []
    listed = {name: answer for name, answer in answers.items() if isinstance(answer, Listed)}
    schemas = {
        f"{name}.{tool.name}": cast("JsonObject", tool.input_schema)
        for name, answer in listed.items()
        for tool in answer.tools
    }
    for upstream in upstreams:
        answer = answers[upstream.name]
        if not isinstance(answer, Listed):
            warnings.append(_at(f"it could not be asked: {answer.reason}", "upstreams", upstream.name))
            continue
        warnings += _of_preset(upstream, answer)
        warnings += _undeclared(upstream, answer.tools)
        for tool in upstream.tools:
            problems += _of_tool(tool.pair, schemas, listed.keys())
    return Checked(tuple(problems), tuple(warnings))


def _as_entry(upstream: DeclaredUpstream) -> JsonObject:
    place = upstream.place
    if isinstance(place, Program):
        entry: JsonObject = {"command": place.command, "args": [*place.args], "env": {**place.env}}
        return {**entry, "cwd": str(place.cwd)}
    return {"url": place.url, "headers": {**place.headers}}


def _of_preset(upstream: DeclaredUpstream, answer: Listed) -> Iterator[ConfigProblem]:
    if upstream.preset and (misfit := load_preset(upstream.preset).misfit(answer.server, answer.version)):
        yield _at(f"the preset {misfit}", "upstreams", upstream.name, "preset")


def _undeclared(upstream: DeclaredUpstream, tools: tuple[types.Tool, ...]) -> Iterator[ConfigProblem]:
    known = {tool.tool for tool in upstream.tools}
    hints = {tool.name: tool.annotations for tool in tools if tool.name not in known}
    reads = [name for name, hint in hints.items() if hint is not None and hint.read_only_hint is True]
    writes = [name for name in hints if name not in reads]
    if reads:
        yield _at(f"not offered: {', '.join(reads)}; the server says that they only read", "upstreams", upstream.name)
    if writes:
        yield _at(f"not offered: {', '.join(writes)}; [tools] does not say what they do", "upstreams", upstream.name)


def _of_tool(pair: Pair, schemas: Mapping[str, JsonObject], asked: Collection[str]) -> Iterator[ConfigProblem]:
    if pair.tool not in schemas:
        upstream = pair.tool.partition(".")[0]
        hint = did_you_mean(pair.tool, schemas)
        yield _at(f"{upstream} has no such tool{hint}", "tools", pair.tool)
        return
    for place, tool, args in _calls(pair):
        if tool.partition(".")[0] not in asked:
            continue
        schema = schemas.get(tool)
        if schema is None:
            yield _at(f"there is no tool {tool}{did_you_mean(tool, schemas)}", "tools", pair.tool, place)
            continue
        known = cast("JsonObject", schema.get("properties") or {})
        required = cast("list[str]", schema.get("required") or [])
        for name in args:
            if name not in known and schema.get("additionalProperties") is not True:
                hint = did_you_mean(name, known)
                yield _at(f"{tool} has no argument {name}{hint}", "tools", pair.tool, place)
        for name in required:
            if name not in args:
                yield _at(f"{tool} needs {name}", "tools", pair.tool, place)


def _calls(pair: Pair) -> Iterator[tuple[str, str, JsonObject]]:
    """Every call that a pair may make, and the key under which it stands."""
    for entry in pair.undo:
        if entry.action is PartAction.CALL:
            yield "undo", entry.tool, entry.args
        for name, call in (("read", entry.read), ("probe", entry.probe.call if entry.probe else None)):
            if call is not None:
                yield name, call.tool, call.args
    reads = {
        "capture": pair.capture.call if pair.capture else None,
        "after": pair.after.call if pair.after else None,
        "guard": pair.guard.call if pair.guard else None,
        "probe": pair.probe.call if pair.probe else None,
    }
    for name, call in reads.items():
        if call is not None:
            yield name, call.tool, call.args
    for case in pair.cases:
        yield from _calls(case.pair)


def _at(message: str, *path: str) -> ConfigProblem:
    return ConfigProblem(show_key(path), message)
