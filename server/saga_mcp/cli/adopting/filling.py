"""Where the servers of a client are: what the client would fill into their entries is filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from saga_mcp.cli.adopting.client_file import Entry
from saga_mcp.tools.upstream.asking import Silent
from saga_mcp.tools.upstream.declared import Endpoint, Program

_HOLE = re.compile(r"\$\{(?:(?P<kind>env|input):)?(?P<name>[A-Za-z0-9_-]+)(?::-(?P<default>[^}]*))?\}")


def place_of(
    entry: Entry, folder: Path, environ: Mapping[str, str], *, client_fills: bool
) -> Program | Endpoint | Silent:
    """Return where a server is, or why it cannot be asked.

    Args:
        entry: As the client has it.
        folder: Where those run that do not say where.
        environ: What stands in for what a client fills in.
        client_fills: Whether the client fills in `${...}` at all; Claude Desktop hands them on as they are.
    """
    fill = _Fill(folder, environ if client_fills else None)
    command, url, cwd = fill.text(entry.command), fill.text(entry.url), fill.text(entry.cwd)
    args = tuple(fill.text(arg) for arg in entry.args)
    env = {name: fill.text(value) for name, value in entry.env.items()}
    headers = {name: fill.text(value) for name, value in entry.headers.items()}
    if fill.missing:
        return Silent(f"the client fills in {', '.join(fill.missing)}: set it in the environment and try again")
    return Endpoint(url=url, headers=headers) if url else Program(command=command, args=args, env=env, cwd=folder / cwd)


class _Fill:
    """Fills in what a client would; None for `environ`: nothing, as the client does not either."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None) -> None:
        self._folder = folder
        self._environ = environ
        self.missing: list[str] = []

    def text(self, written: str) -> str:
        return written if self._environ is None else _HOLE.sub(self._one, written)

    def _one(self, hole: re.Match[str]) -> str:
        environ = self._environ or {}
        own = {"workspaceFolder": str(self._folder), "userHome": str(Path.home())}
        if hole["name"] in own and hole["kind"] is None:
            return own[hole["name"]]
        name = hole["name"]
        if hole["kind"] == "input":
            name = f"INPUT_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"
        value: str | None = environ.get(name) or hole["default"]
        if value is None:
            self.missing.append(f"{hole[0]} ({name})")
            return ""
        return value
