"""The commands of the first minutes: `check`, `init`, `demo`."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from saga_mcp.cli import starter
from saga_mcp.cli.ground import problem_json, stand_on
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Output, count, wrong_usage
from saga_mcp.config import report
from saga_mcp.domain.values import JsonObject, JsonValue, Kind, PartAction
from saga_mcp.tools.declared import DeclaredTool
from saga_mcp.tools.pair import UndoEntry


def check(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Look for everything that is wrong with the config and the tools it names. Changes nothing.

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
    tools = [tool for registry in ground.loaded.registries for tool in registry.tools]
    if as_json:
        output.json(
            {
                "config": str(ground.path),
                "realm": ground.realm,
                "database": ground.database,
                "errors": [],
                "warnings": [problem_json(each) for each in ground.loaded.warnings],
                "tools": [_tool_json(tool) for tool in tools],
            }
        )
        return
    output.text(report(ground.path, [], ground.loaded.warnings), "")
    if tools:
        output.table(
            ("TOOL", "OFFERED AS", "KIND", "UNDO"),
            [
                (tool.name, tool.registered.name if tool.offered else "-", tool.pair.kind.value, _undo(tool))
                for tool in tools
            ],
        )
        output.text("")
    output.text(f"{count(len(tools), 'tool')} in the realm {ground.realm}, with the saga log {ground.database}")


def _tool_json(tool: DeclaredTool) -> JsonObject:
    return {
        "tool": tool.name,
        "offered_as": tool.registered.name if tool.offered else None,
        "kind": tool.pair.kind.value,
        "undo": [*_undo_words(tool)],
        "probe": tool.pair.has_probe,
    }


def _undo(tool: DeclaredTool) -> str:
    return ", then ".join(_undo_words(tool)) or {
        Kind.PIVOT: "none: point of no return",
        Kind.RETRIABLE: "none: tried until it succeeds",
        Kind.READ_ONLY: "none needed",
    }.get(tool.pair.kind, "-")


def _undo_words(tool: DeclaredTool) -> Iterator[str]:
    for entry in tool.pair.undo:
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
