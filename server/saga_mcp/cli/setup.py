"""The commands of the first minutes: `init`, `demo`."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from saga_mcp.cli import starter
from saga_mcp.cli.options import JsonOption
from saga_mcp.cli.output import CommandFailed, Output, wrong_usage
from saga_mcp.domain.values import JsonValue


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
