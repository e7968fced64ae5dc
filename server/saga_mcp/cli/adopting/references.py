"""What of a server's entry may stand in saga.toml as it is, and what only by reference.

Whatever is not plainly harmless stays where it is, in the client's file, as the environment of our entry, and saga.toml
says `${env:NAME}`. So does whatever the client itself fills in, which nobody else can.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from saga_mcp.cli.adopting.client_file import Entry
from saga_mcp.cli.adopting.harmless import (
    is_harmless,
    is_harmless_argument,
    is_harmless_command,
    is_harmless_url,
)
from saga_mcp.domain.values import JsonObject

_FILLED_BY_CLIENT = re.compile(r"\$\{[^}]*\}")


@dataclass(frozen=True, slots=True)
class Reachable:
    """How an entry is reached, as saga.toml says it."""

    keys: JsonObject
    """Of `[upstreams.NAME]`."""
    referred: Mapping[str, str] = field(repr=False)
    """What the environment of our entry has to hold for it."""
    copied: tuple[str, ...] = ()
    """Names of variables and headers whose values saga.toml says as they are."""


class References:
    """Names for what is referred to, over all entries of one file.

    Args:
        taken: Names that are in use, each with its value; empty where that is not known.
    """

    def __init__(self, taken: Mapping[str, str] | None = None) -> None:
        self._named = {**(taken or {})}

    def reachable(self, name: str, entry: Entry, cwd: Path | None) -> Reachable:
        """Return how an entry is reached.

        Args:
            name: Of the upstream.
            entry: As the client has it.
            cwd: Where it runs; None where saga.toml need not say.
        """
        mine = _Moved(name, self._named)
        keys: JsonObject = {}
        if entry.url:
            keys["url"] = mine.text("URL", entry.url, plain=is_harmless_url(entry.url))
            if entry.headers:
                keys["headers"] = {header: mine.named(header, value) for header, value in entry.headers.items()}
            return Reachable(keys, mine.referred, (*mine.copied,))
        keys["command"] = mine.text("COMMAND", entry.command, plain=is_harmless_command(entry.command))
        if entry.args:
            keys["args"] = [
                mine.text(f"ARG_{place + 1}", arg, plain=is_harmless_argument(entry.command, entry.args, place))
                for place, arg in enumerate(entry.args)
            ]
        if entry.env:
            keys["env"] = {name: mine.named(name, value, own_name=True) for name, value in entry.env.items()}
        if entry.cwd:
            keys["cwd"] = mine.text("CWD", entry.cwd, plain=True)
        elif cwd is not None:
            keys["cwd"] = str(cwd)
        return Reachable(keys, mine.referred, (*mine.copied,))


class _Moved:
    def __init__(self, upstream: str, named: dict[str, str]) -> None:
        self._upstream = upstream
        self._named = named
        self.referred: dict[str, str] = {}
        self.copied: list[str] = []

    def named(self, name: str, value: str, *, own_name: bool = False) -> str:
        """Return the value of a variable or header as saga.toml may have it."""
        written = self.text(name, value, plain=is_harmless(name, value), own_name=own_name)
        if value and written == value:
            self.copied.append(name)
        return written

    def text(self, what: str, value: str, *, plain: bool, own_name: bool = False) -> str:
        """Return a text as saga.toml may have it."""
        if plain and not _FILLED_BY_CLIENT.search(value):
            return value
        whole = _plain(f"{self._upstream}_{what}")
        name = what if own_name and self._named.get(what, value) == value else whole
        while self._named.get(name, value) != value:
            name += "_"
        self._named[name] = value
        self.referred[name] = value
        return f"${{env:{name}}}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
