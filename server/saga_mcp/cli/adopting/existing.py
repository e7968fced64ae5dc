"""A saga.toml that is there already: what of it counts for who adds to it, and where an addition begins and ends. Pure.

Nothing that stands in it is written anew. An addition is put at its end, under a line that says where it is from and
what it holds, so that it can be taken out again as long as nobody has worked on it.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from saga_mcp.cli.adopting.client_file import Entry
from saga_mcp.domain.values import JsonObject, JsonValue
from saga_mcp.edge.clean import escape

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_LINE = re.compile(
    rb"^# Added by `saga-mcp adopt` from (?P<source>.*); `--revert` takes it out \((?P<sum>[0-9a-f]{16})\)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Existing:
    """What a config says already."""

    raw: bytes
    names: frozenset[str]
    """Of upstreams and of Python registries: they begin the names of tools."""
    upstreams: Mapping[str, JsonObject]
    variables: frozenset[str]
    """Of the environment that it refers to."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What was added once."""

    without: bytes
    """The file as it would be without it."""
    is_as_written: bool


def existing(raw: bytes) -> Existing:
    """Read a config.

    Raises:
        ValueError: it is no TOML.
    """
    text = raw.decode("utf-8")
    content = cast("JsonObject", tomllib.loads(text))
    upstreams, python = (_table(content.get(key)) for key in ("upstreams", "python"))
    return Existing(
        raw=raw,
        names=frozenset({*upstreams, *python}),
        upstreams={name: _table(written) for name, written in upstreams.items()},
        variables=frozenset(_REFERENCE.findall(text)),
    )


def reached_alike(written: JsonObject, entry: Entry, cwd: str) -> dict[str, str] | None:
    """Return whether an upstream is the server of an entry: None, or what the environment has to hold for it.

    Args:
        written: Its table in the config; a text that only refers to the environment may stand for any.
        entry: As the client has it.
        cwd: Where the config has to say that it runs; empty where it need not.
    """
    wanted: JsonObject = {"command": entry.command, "url": entry.url, "cwd": "" if entry.url else entry.cwd or cwd}
    wanted |= {"args": [*entry.args], "env": {**entry.env}, "headers": {**entry.headers}}
    said: JsonObject = {"command": "", "url": "", "cwd": "", "args": [], "env": {}, "headers": {}}
    said |= {key: value for key, value in written.items() if key in said}
    referred: dict[str, str] = {}
    return referred if _alike(said, wanted, referred) else None


def renewed(old: JsonObject, written: JsonObject, values: Mapping[str, str]) -> JsonObject:
    """Return an entry with what the environment holds now in the place of what a config only refers to.

    Args:
        old: The entry.
        written: The table of the same server in the config.
        values: The environment.
    """
    return {key: _renewed(value, written.get(key), values) for key, value in old.items()}


def with_addition(raw: bytes, source: str, text: str) -> bytes:
    """Return a config with something at its end.

    Args:
        raw: The config.
        source: Where it is from, for people and for who takes it out again.
        text: Tables, with a line end after the last.
    """
    added = text.encode()
    line = f"# Added by `saga-mcp adopt` from {escape(source)}; `--revert` takes it out ({_sum(added)})\n"
    return raw + b"\n" + line.encode() + added


def find_addition(raw: bytes, source: str) -> Addition | None:
    """Return what was added from there, if anything was."""
    lines = [*_LINE.finditer(raw)]
    starts = [line.start() - 1 for line in lines]
    for line, start, end in zip(lines, starts, [*starts[1:], len(raw)], strict=False):
        if line["source"] == escape(source).encode():
            text = raw[line.end() + 1 : end]
            return Addition(raw[:start] + raw[end:], _sum(text) == line["sum"].decode())
    return None


def _alike(written: JsonValue, wanted: JsonValue, referred: dict[str, str]) -> bool:
    if isinstance(written, str) and isinstance(wanted, str):
        if written == wanted:
            return True
        if (reference := _REFERENCE.fullmatch(written)) is None:
            return False
        return bool(wanted) and referred.setdefault(reference[1], wanted) == wanted
    if isinstance(written, list) and isinstance(wanted, list):
        return len(written) == len(wanted) and all(
            _alike(one, other, referred) for one, other in zip(written, wanted, strict=True)
        )
    if isinstance(written, dict) and isinstance(wanted, dict):
        return written.keys() == wanted.keys() and all(_alike(written[key], wanted[key], referred) for key in wanted)
    return False


def _renewed(old: JsonValue, written: JsonValue, values: Mapping[str, str]) -> JsonValue:
    if isinstance(old, str) and isinstance(written, str):
        reference = _REFERENCE.fullmatch(written)
        return old if reference is None else values.get(reference[1], old)
    if isinstance(old, list) and isinstance(written, list):
        return [_renewed(one, other, values) for one, other in zip(old, written, strict=True)]
    if isinstance(old, dict) and isinstance(written, dict):
        return renewed(old, written, values)
    return old


def _sum(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def _table(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
