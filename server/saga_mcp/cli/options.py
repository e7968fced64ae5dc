"""The options that many commands share, and what stands behind their defaults."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from saga_mcp.cli.output import CommandFailed, wrong_usage
from saga_mcp.cli.streams import interruptible

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The config; default: SAGA_MCP_CONFIG, else ./saga.toml.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without being asked.")]
NoteOption = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; it is kept in the saga log.")]
ByOption = Annotated[
    str, typer.Option("--by", metavar="NAME", help="Who decides; default: who runs this.", show_default=False)
]
WaitOption = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0.0,
        help="Wait at most that long until nothing is running or due. Default: 60 where no server is alive, else 0.",
        show_default=False,
    ),
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Only write it down; the next server that starts does the rest.")
]
ValuesOption = Annotated[bool, typer.Option("--values", help="Also show arguments, results and captures.")]


def person(by: str) -> str:
    """Who decides: as named, else who runs the command.

    Raises:
        CommandFailed: nobody was named, and the system does not know either.
    """
    if by.strip():
        return by.strip()
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user, as in many containers
        return wrong_usage("Nobody is known by name here: say who decides with --by NAME. Nothing was changed.")


def require_answerable(*, yes: bool, as_json: bool) -> None:
    """End a command that changes something where nobody can be asked.

    Raises:
        CommandFailed: there is no terminal, or it is read by a program, and `--yes` is missing.
    """
    if not yes and (as_json or not (sys.stdin.isatty() and sys.stderr.isatty())):
        wrong_usage("This changes something and nobody can be asked here: pass --yes. Nothing was changed.")


def ask(question: str, *, yes: bool) -> None:
    """Ask before something is changed.

    Raises:
        CommandFailed: the answer is no, Ctrl-C or the end of the input.
    """
    if yes:
        return
    try:
        with interruptible():
            agreed = typer.confirm(question, err=True)
    except (typer.Abort, KeyboardInterrupt):
        sys.stderr.write("\n")
        agreed = False
    if not agreed:
        raise CommandFailed("Nothing was changed.", code="declined")
