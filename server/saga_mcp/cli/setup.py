"""The commands of the first minutes: `check`, `init`, `demo`."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from saga_mcp.cli import starter
from saga_mcp.cli.ground import problem_json, stand_on
from saga_mcp.cli.live import check_live
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, count, wrong_usage
from saga_mcp.config import ConfigProblem, LoadedConfig, report
from saga_mcp.domain.values import JsonObject, JsonValue, Kind, PartAction
from saga_mcp.tools.pair import Pair, UndoEntry


def check(
    *,
    config: ConfigOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not start upstreams to ask for their tools.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look for everything that is wrong with the config and the tools it names. Changes nothing, and calls no tool.

    Example: saga-mcp check --config saga.toml
    """
    output = Output(as_json)
    try:
        ground = stand_on(config)
    except CommandFailed as error:
        if error.code != "config_invalid":
            raise
        # What is wrong is this command's answer, not its failure to give one.
        if as_json:
            output.json({**error.details, "tools": []})
        else:
            output.text(str(error))
        raise typer.Exit(error.exit_code) from error
    tools = [*_tools(ground.loaded)]
    problems: tuple[ConfigProblem, ...] = ()
    warnings = ground.loaded.warnings
    if ground.loaded.upstreams and not offline:
        checked = check_live(ground.loaded.upstreams)
        problems, warnings = checked.problems, (*warnings, *checked.warnings)
    if as_json:
        output.json(
            {
                "config": str(ground.path),
                "realm": ground.realm,
                "database": ground.database,
                "errors": [problem_json(each) for each in problems],
                "warnings": [problem_json(each) for each in warnings],
                "tools": [_tool_json(tool) for tool in tools],
            }
        )
    else:
        output.text(report(ground.path, problems, warnings), "")
        if tools:
            rows = [(tool.pair.tool, tool.offered or "-", _kind(tool.pair), _undo(tool.pair)) for tool in tools]
            output.table(("TOOL", "OFFERED AS", "KIND", "UNDO"), rows)
            output.text("")
        output.text(f"{count(len(tools), 'tool')} in the realm {ground.realm}, with the saga log {ground.database}")
    if problems:
        raise typer.Exit(Exit.USAGE)


@dataclass(frozen=True, slots=True)
class _Tool:
    """One tool of the config, of whatever kind of source."""

    pair: Pair
    offered: str
    """The name under which agents see it; empty where they do not."""


def _tools(loaded: LoadedConfig) -> Iterator[_Tool]:
    for registry in loaded.registries:
        for tool in registry.tools:
            yield _Tool(tool.pair, tool.registered.name if tool.offered else "")
    for upstream in loaded.upstreams:
        for each in upstream.tools:
            yield _Tool(each.pair, each.offered if each.listed else "")


def _tool_json(tool: _Tool) -> JsonObject:
    return {
        "tool": tool.pair.tool,
        "offered_as": tool.offered or None,
        "kind": _kind(tool.pair),
        "undo": [*_undo_words(tool.pair)],
        "not_restored": "; ".join(_residues(tool.pair)) or None,
        "probe": tool.pair.has_probe,
    }


def _kind(pair: Pair) -> str:
    """What a tool is; of one with cases, whatever it may be."""
    return " or ".join(dict.fromkeys(case.pair.kind.value for case in pair.cases)) or pair.kind.value


def _undo(pair: Pair) -> str:
    words = ", then ".join(_undo_words(pair)) or {
        Kind.PIVOT: "none: point of no return",
        Kind.RETRIABLE: "none: tried until it succeeds",
        Kind.READ_ONLY: "none needed",
    }.get(pair.kind, "-")
    residues = "; ".join(_residues(pair))
    return f"{words} (not restored: {residues})" if residues else words


def _residues(pair: Pair) -> Iterator[str]:
    yield from dict.fromkeys(each for each in (pair.not_restored, *(c.pair.not_restored for c in pair.cases)) if each)


def _undo_words(pair: Pair) -> Iterator[str]:
    for case in pair.cases:
        words = _undo(replace(case.pair, not_restored=""))
        yield words if case.when is True else f"{words} (where {case.when})"
    for entry in pair.undo:
        words = _entry_words(entry)
        yield words if entry.when is True else f"{words} (where {entry.when})"


def _entry_words(entry: UndoEntry) -> str:
    match entry.action:
        case PartAction.CALL:
            return entry.tool
        case PartAction.MANUAL:
            return "a person"
        case PartAction.LEAVE:
            return "left as it is"
        case PartAction.NOTHING:
            return "nothing"


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", show_default=False)] = Path(),
    *,
    python: Annotated[bool, typer.Option("--python", help="Start with a pair of Python functions.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a starter saga.toml and tools.py, with one pair that runs. Overwrites nothing.

    Example: saga-mcp init --python
    """
    if not python:
        wrong_usage("Say what to start from: saga-mcp init --python. Nothing was written.")
    folder = folder.expanduser().resolve()
    config, tools = folder / "saga.toml", folder / "tools.py"
    there = [str(path) for path in (config, tools) if path.exists() or path.is_symlink()]
    if there:
        raise CommandFailed(f"{' and '.join(there)} already there. Nothing was written.", code="already_there")
    realm = starter.realm_for(folder.name, secrets.token_hex(3))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in ((config, starter.config_text(realm)), (tools, starter.TOOLS)):
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise CommandFailed(f"{error}", code="not_written") from error
    command = starter.own_command(sys.argv[0])
    warning = starter.passing(Path(sys.prefix))
    output = Output(as_json)
    if as_json:
        client = starter.client_config(command, config)
        written: list[JsonValue] = [str(config), str(tools)]
        output.json({"written": written, "realm": realm, "client_config": client, "warning": warning})
        return
    output.text(*starter.next_steps(command, config, tools))
    if warning is not None:
        output.text("", warning)


def demo(
    *,
    values: Annotated[bool, typer.Option("--values", help="Also show arguments and results.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run two small sagas in a temporary folder: one is kept, one fails and is undone. Leaves nothing behind.

    Example: saga-mcp demo
    """
    from saga_mcp.cli import demonstration  # noqa: PLC0415 - only this command runs tools of its own

    demonstration.run(Output(as_json), values=values)
