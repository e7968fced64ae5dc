"""The command `adopt` as Typer sees it; what it does is in `adopting`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saga_mcp.cli.options import JsonOption, YesOption, require_answerable
from saga_mcp.cli.output import Output


def adopt(  # noqa: PLR0913 - each is an option of the command
    client_config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CLIENT_CONFIG]", help="The client's file; default: Claude Desktop's.", show_default=False
        ),
    ] = None,
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Where saga.toml is written; default: the project's folder, else your config folder.",
            show_default=False,
        ),
    ] = None,
    project: Annotated[
        Path,
        typer.Option("--project", metavar="FOLDER", help="Whose servers, in ~/.claude.json; default: this folder."),
    ] = Path(),
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="SERVER", help="Leave this one as it is; may be repeated.")
    ] = None,
    trust_hints: Annotated[
        bool, typer.Option("--trust-hints", help="Offer what a server itself says only reads.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be written.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Put the client's servers back.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put the MCP servers that a client has behind saga-mcp. Starts each to list its tools, and calls none.

    Example: saga-mcp adopt --dry-run
    """
    from saga_mcp.cli.adopting.command import Wishes, run  # noqa: PLC0415 - speaks MCP, which no other command needs

    if not dry_run:
        require_answerable(yes=yes, as_json=as_json)
    wishes = Wishes(config=config, skip=skip or [], trust_hints=trust_hints, dry_run=dry_run, revert=revert, yes=yes)
    run(client_config, project, wishes, Output(as_json))
