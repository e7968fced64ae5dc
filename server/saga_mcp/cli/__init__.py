"""The `saga-mcp` command.

`serve` takes a path of its own: nothing may print before stdout is the wire, and a client waits for it, so it imports
neither Typer nor Rich.
"""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]

_LEADING = {"--config": True, "--json": False}
"""Options that may stand before the command's name, and whether they take a value."""


def main() -> None:
    """Run the command that the command line names."""
    arguments = _command_first(sys.argv[1:])
    if arguments[:1] == ["serve"] and not {"--help", "-h"} & set(arguments):
        from saga_mcp.edge.stdout import take_over_stdout  # noqa: PLC0415 - see above

        try:
            wire = take_over_stdout()
        except OSError:
            raise SystemExit("saga-mcp serve: stdin or stdout is closed, so there is nobody to serve.") from None
        # A client waits, and collecting what imports leave behind takes 15 % of the start (measured). Until it serves.
        gc.disable()
        from saga_mcp.cli.serve import serve  # noqa: PLC0415 - see above

        raise SystemExit(serve(wire, arguments[1:]))
    from saga_mcp.cli.commands import run  # noqa: PLC0415 - see above

    raise SystemExit(run(arguments))


def _command_first(arguments: list[str]) -> list[str]:
    """Move options that stand before the command's name behind it, where every command takes them."""
    leading: list[str] = []
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] in _LEADING:
        option = rest.pop(0)
        leading.append(option)
        if _LEADING[option.partition("=")[0]] and "=" not in option and rest:
            leading.append(rest.pop(0))
    return [*rest[:1], *leading, *rest[1:]] if rest else leading
