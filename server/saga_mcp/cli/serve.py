"""`saga-mcp serve`: one MCP client over stdin and stdout.

Imported only after stdout is the wire, and light: no Typer, no Rich. Everything it says goes to stderr, which most
clients keep in their log of the server.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn, cast

import anyio

from saga_mcp import app
from saga_mcp.cli.injecting import InjectingCatalogue, Injection, Unreadable, notice, parse
from saga_mcp.config import ConfigError, LoadedConfig
from saga_mcp.domain.errors import SagaError
from saga_mcp.edge.changes import ListChanges
from saga_mcp.edge.logging import LogLevel, configure_logging
from saga_mcp.edge.server import build_server
from saga_mcp.edge.stdio import serve_stdio
from saga_mcp.edge.stdout import WireStreams

LEVELS = ("debug", "info", "warning", "error")
_DONE, _FAILED, _USAGE = 0, 1, 2


def serve(wire: WireStreams, arguments: list[str]) -> int:
    """Serve until the client closes stdin or a signal arrives.

    Args:
        wire: the real stdin and stdout.
        arguments: what followed `serve` on the command line.

    Returns:
        The exit code.
    """
    try:
        options = _Parser(prog="saga-mcp serve", add_help=False, allow_abbrev=False).parse(arguments)
        configure_logging(cast("LogLevel", options.log_level), json=bool(options.log_json), stream=sys.stderr)
        injections = parse(options.inject)
        loaded = app.load(options.config)
    except (_WrongUsage, ConfigError, Unreadable) as error:
        sys.stderr.write(f"{error}\n")
        return _USAGE
    if os.isatty(wire.stdin_fd):
        sys.stderr.write(
            "saga-mcp serve: waits for an MCP client on stdin; clients start it themselves. Ctrl-C ends it.\n"
        )
    for warning in loaded.warnings:
        sys.stderr.write(f"{loaded.path.name}: warn {warning}\n")
    try:
        anyio.run(_serve, wire, loaded, injections)
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return _USAGE
    except (SagaError, OSError) as error:
        sys.stderr.write(f"saga-mcp serve: {error}\n")
        return _FAILED
    return _DONE


async def _serve(wire: WireStreams, loaded: LoadedConfig, injections: tuple[Injection, ...]) -> None:
    changes = ListChanges()
    around = partial(InjectingCatalogue.around, injections=injections)
    async with app.open_app(loaded, tools_changed=changes.tell, around=around) as opened:
        server = build_server(opened.engine, opened.catalogue, changes=changes, notice=notice(injections))
        gc.freeze()
        gc.enable()
        await serve_stdio(server, wire, drain=opened.engine.drain)


class _WrongUsage(Exception):
    """The command line is wrong; the message says how."""


class _Parser(argparse.ArgumentParser):
    """Reports what is wrong instead of ending the process, so that `serve` says everything in one place."""

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        self.add_argument("--config", type=Path)
        self.add_argument("--log-level", choices=LEVELS, default="info")
        self.add_argument("--log-json", action="store_true")
        self.add_argument("--inject", action="append", default=[])
        return self.parse_args(arguments)

    def error(self, message: str) -> NoReturn:
        raise _WrongUsage(f"saga-mcp serve: {message}. See `saga-mcp serve --help`.")
