"""What of a server's entry may stand in saga.toml as it is, and what only by reference.

A secret never gets into saga.toml: it stays where it is, in the client's file, as the environment of our entry, and
saga.toml says `${env:NAME}`. So does whatever the client itself fills in, which nobody else can.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from saga_mcp.cli.adopting.client_file import Entry
from saga_mcp.domain.values import JsonObject

_SECRET_NAME = re.compile(
    r"(?i)(key|token|secret|passw|passphrase|pwd|auth|cred|cookie|session|signature|private|dsn|webhook|"
    r"connection.?string|database.?ur[il]|\bpat\b|_pat$)"
)
_SECRET_VALUE = re.compile(
    r"(?x) (^|[\s:=])(sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[a-z]|ntn|secret|lin_api|AKIA|ASIA|eyJ|AIza|hf)"
    r"[-_A-Za-z0-9]{8,}"
    r" | (^|[\s:=])(Bearer|Basic|Token)\s | ://[^/\s:@]*:[^/\s@]+@ | [?&][^=&]*(key|token|secret|sig|auth)[^=&]*="
    r" | -----BEGIN "
)
_LOOKS_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_-]{24,}")
_NAME = re.compile(r"-{0,2}[A-Za-z_][A-Za-z0-9_.-]*")
_FILLED_BY_CLIENT = re.compile(r"\$\{[^}]*\}")


@dataclass(frozen=True, slots=True)
class Reachable:
    """How an entry is reached, as saga.toml says it."""

    keys: JsonObject
    """Of `[upstreams.NAME]`."""
    referred: Mapping[str, str] = field(repr=False)
    """What the environment of our entry has to hold for it."""


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
            keys["url"] = mine.text("URL", entry.url, secret=bool(_SECRET_VALUE.search(entry.url)))
            if entry.headers:
                keys["headers"] = {
                    header: mine.text(header, value, secret=_is_secret(header, value))
                    for header, value in entry.headers.items()
                }
            return Reachable(keys, mine.referred)
        keys["command"] = mine.text("COMMAND", entry.command)
        if entry.args:
            keys["args"] = [
                mine.text(f"ARG_{place + 1}", arg, secret=_is_secret_argument(entry.args, place))
                for place, arg in enumerate(entry.args)
            ]
        if entry.env:
            keys["env"] = {
                variable: mine.text(variable, value, secret=_is_secret(variable, value), own_name=True)
                for variable, value in entry.env.items()
            }
        if entry.cwd:
            keys["cwd"] = mine.text("CWD", entry.cwd)
        elif cwd is not None:
            keys["cwd"] = str(cwd)
        return Reachable(keys, mine.referred)


class _Moved:
    def __init__(self, upstream: str, named: dict[str, str]) -> None:
        self._upstream = upstream
        self._named = named
        self.referred: dict[str, str] = {}

    def text(self, what: str, value: str, *, secret: bool = False, own_name: bool = False) -> str:
        """Return a text as saga.toml may have it."""
        if not secret and not _FILLED_BY_CLIENT.search(value):
            return value
        whole = _plain(f"{self._upstream}_{what}")
        name = what if own_name and self._named.get(what, value) == value else whole
        while self._named.get(name, value) != value:
            name += "_"
        self._named[name] = value
        self.referred[name] = value
        return f"${{env:{name}}}"


def _is_secret(name: str, value: str) -> bool:
    return bool(value) and bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value) or _is_random(value))


def _is_secret_argument(args: list[str], place: int) -> bool:
    arg = args[place]
    for between in "=:":  # --api-key=..., what follows `docker run -e`, and headers
        name, _, value = arg.partition(between)
        if _NAME.fullmatch(name) and _is_secret(name, value):
            return True
    before = args[place - 1] if place else ""
    after_flag = before.startswith("-") and "=" not in before and bool(_SECRET_NAME.search(before))
    return after_flag or bool(_SECRET_VALUE.search(arg)) or _is_random(arg)


def _is_random(value: str) -> bool:
    """Whether it looks like a key: long, of letters and digits. A name that does so too is only referred to."""
    return bool(_LOOKS_RANDOM.fullmatch(value)) and not value.startswith("/")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
