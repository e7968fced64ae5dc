"""The `saga-mcp` command.

`serve` takes a path of its own: nothing may print before stdout is the wire, and a client waits for it, so it imports
neither Typer nor Rich.

Until `main` has put the import path in order, nothing is imported here that the interpreter has not loaded itself, not
even `__future__`: a file of that name on PYTHONPATH would be taken for it.
"""

import gc
import os
import sys

__all__ = ["main"]

_LEADING = {"--config": True, "--json": False}
"""Options that may stand before the command's name, and whether they take a value."""


def main() -> None:
    """Run the command that the command line names."""
    _put_installed_code_first()
    arguments = _command_first(sys.argv[1:])
    if arguments[:1] == ["serve"] and not {"--help", "-h"} & set(arguments):
        wire = None
        if not any(each.partition("=")[0] == "--http" for each in arguments):
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


def _put_installed_code_first() -> None:
    """Move what PYTHONPATH names to the end of the import path: tools find it there, and it hides nothing we import.

    Python puts it in front of its own library. An `mcp.py` there, or another version's packages, would be taken for
    ours; an empty entry means the working directory.
    """
    named = os.environ.get("PYTHONPATH")
    if not named or sys.flags.ignore_environment:
        return
    foreign = {os.path.abspath(entry) for entry in named.split(os.pathsep)}  # noqa: PTH100 - pathlib is not loaded yet
    foreign -= {os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__path__[0]))}  # noqa: PTH120 - see above
    sys.path[:] = sorted(sys.path, key=foreign.__contains__)


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
