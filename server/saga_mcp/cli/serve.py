"""`saga-mcp serve`: one MCP client over stdin and stdout, or with `--http` many.

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


def serve(wire: WireStreams | None, arguments: list[str]) -> int:
    """Serve until the client closes stdin or a signal arrives.

    Args:
        wire: the real stdin and stdout; None: over HTTP.
        arguments: what followed `serve` on the command line.

    Returns:
        The exit code.
    """
    try:
        options = _Parser(prog="saga-mcp serve", add_help=False, allow_abbrev=False).parse(arguments)
        configure_logging(cast("LogLevel", options.log_level), json=bool(options.log_json), stream=sys.stderr)
        injections = parse(options.inject)
        loaded = app.load(options.config)
        address = _address(options, loaded) if wire is None else None
    except (_WrongUsage, ConfigError, Unreadable) as error:
        sys.stderr.write(f"{error}\n")
        return _USAGE
    if wire is not None and os.isatty(wire.stdin_fd):
        sys.stderr.write(
            "saga-mcp serve: waits for an MCP client on stdin; clients start it themselves. Ctrl-C ends it.\n"
        )
    for warning in loaded.warnings:
        sys.stderr.write(f"{loaded.path.name}: warn {warning}\n")
    try:
        if wire is not None:
            anyio.run(_serve, wire, loaded, injections)
        elif address is not None:
            _serve_http(loaded, injections, address)
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


def _address(options: argparse.Namespace, loaded: LoadedConfig) -> tuple[str, int]:
    from saga_mcp.cli.serve_http import WrongAddress, address_of, require_safe  # noqa: PLC0415 - not for stdio

    try:
        address = address_of(cast("str", options.http))
        require_safe(loaded, address[0])
    except WrongAddress as wrong:
        raise _WrongUsage(f"saga-mcp serve: {wrong}.") from wrong
    return address


def _serve_http(loaded: LoadedConfig, injections: tuple[Injection, ...], address: tuple[str, int]) -> None:
    from saga_mcp.cli.serve_http import serve as serve_many  # noqa: PLC0415 - see above

    anyio.run(serve_many, loaded, injections, *address)


class _WrongUsage(Exception):
    """The command line is wrong; the message says how."""


class _Parser(argparse.ArgumentParser):
    """Reports what is wrong instead of ending the process, so that `serve` says everything in one place."""

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        self.add_argument("--config", type=Path)
        self.add_argument("--http", nargs="?", const="127.0.0.1:8000")
        self.add_argument("--log-level", choices=LEVELS, default="info")
        self.add_argument("--log-json", action="store_true")
        self.add_argument("--inject", action="append", default=[])
        return self.parse_args(arguments)

    def error(self, message: str) -> NoReturn:
        raise _WrongUsage(f"saga-mcp serve: {message}. See `saga-mcp serve --help`.")
